// The same with React, for a page that imports "react" from its own build. It has no JSX, so it runs as it is.
import { createElement as h, useEffect, useState } from "react";

import { describeRun, watchRun } from "./watch.js";

// The run of an address with a run token: undefined until the board has answered, null when the token has expired.
export function useRun(address) {
  const [run, setRun] = useState(undefined);
  useEffect(() => watchRun(address, setRun), [address]);
  return run;
}

export function RunProgress({ address, file }) {
  const run = useRun(address);
  if (run === undefined) return null;
  const done = run?.status === "succeeded";
  return h("section", null,
    h("progress", { max: 1, value: done ? 1 : (run?.progress ?? 0), "aria-label": "Progress" }),
    h("p", { role: "status" }, describeRun(run)),
    h("ul", null, (run?.steps ?? []).map(({ name, state }) => h("li", { key: name }, `${name}: ${state}`))),
    done && h("a", { href: file }, "Download"));
}
