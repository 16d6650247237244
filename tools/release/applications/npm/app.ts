// An application of the npm package: `node app.js` prints what it imports, `node app.js work` is a worker.
import { enqueue, type Query, type Run, runWorker, schedule } from "wakeboard";

async function order(query: Query): Promise<string> {
  const { id } = await enqueue(query, "send_receipt", { order: 42 }, { idempotencyKey: "order-42" });
  await schedule(query, "customers/42-report", "send_report", { customer: 42 }, { cron: "0 8 * * MON" });
  return id;
}

const handlers = {
  async send_receipt(run: Run) {
    run.log("sent");
    return run.step("Send", async () => ({ sent: 1 }));
  },
};

if (process.argv[2] === "work") await runWorker(handlers);
console.log(order.name, typeof enqueue, typeof runWorker);
