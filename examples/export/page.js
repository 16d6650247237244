// The page without a framework.
import { describeRun, watchRun } from "./watch.js";

const find = (id) => document.getElementById(id);
let stop = () => {};

find("start").addEventListener("click", async () => {
  const answer = await fetch("/exports", { method: "POST", body: JSON.stringify({}) });
  const { watch, file } = await answer.json();
  stop();
  stop = watchRun(watch, (run) => {
    find("said").textContent = describeRun(run);
    if (run === null) return;
    find("bar").value = run.status === "succeeded" ? 1 : (run.progress ?? 0);
    find("steps").replaceChildren(...run.steps.map(({ name, state }) => {
      const item = document.createElement("li");
      item.textContent = `${name}: ${state}`;
      return item;
    }));
    find("file").hidden = run.status !== "succeeded";
    find("file").href = file;
  });
});
