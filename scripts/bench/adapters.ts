/**
 * What an adapter of an agent framework adds to the time of a run with one tool call that a rule allows: asking for the decision and
 * reporting the outcome, two requests on one machine. Each governed run is paired with one without the adapter, interleaved. Needs the frameworks:
 * `node scripts/setup.js frameworks`. The MCP gate writes the start of each call to the disk besides.
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { connect } from "../../src/client/connect/index.ts"
import { startMcpServer } from "../frameworks/mcpRun.ts"
import { runs } from "../frameworks/runs.ts"
import { machine, quantile } from "./measure.ts"
import { startService, startStore, stopAll } from "./service.ts"

const RUNS = 600
const WARM_UP = 200

console.log(
  `\n${machine()}, PostgreSQL 18 embedded, fsync on; ${RUNS} runs of one allowed call each, one at a time`
)
const store = await startStore()
const service = await startService(await store.database("adapters"))
const client = connect({ url: `http://127.0.0.1:${service.port}`, key: service.key })
try {
  await client.approvalRules.replace({ payload: { rules: [{ effect: "allow" }] } })
  const row = (name: string, values: ReadonlyArray<number | string>) =>
    console.log(
      name.padEnd(20),
      ...values.map((value) => (typeof value === "number" ? value.toFixed(1) : value).padStart(12))
    )
  row("in milliseconds", ["without p50", "with p50", "added p50", "added p99"])
  const compare = async (name: string, run: (id: string, governed: boolean) => Promise<unknown>) => {
    const timed = async (id: string, governed: boolean) => {
      const begin = performance.now()
      await run(id, governed)
      return performance.now() - begin
    }
    const plain: Array<number> = []
    const governed: Array<number> = []
    for (let count = 0; count < WARM_UP + RUNS; count++) {
      // Each is first in half of the pairs.
      const order = count % 2 === 0 ? [false, true] : [true, false]
      for (const isGoverned of order) {
        const millis = await timed(`call_${count}`, isGoverned)
        if (count >= WARM_UP) (isGoverned ? governed : plain).push(millis)
      }
    }
    const added = governed.map((millis, index) => millis - (plain[index] ?? Number.NaN))
    row(name, [quantile(plain, 0.5), quantile(governed, 0.5), quantile(added, 0.5), quantile(added, 0.99)])
  }
  for (const [name, run] of Object.entries(runs)) {
    const { session_id } = await client.sessions.create()
    const gate = { client, session: session_id }
    await compare(name, (id, governed) => run(id, governed ? gate : undefined))
  }
  const state = mkdtempSync(path.join(tmpdir(), "countersign-bench-"))
  const command = fileURLToPath(new URL("../countersign.js", import.meta.url))
  const direct = await startMcpServer([], {})
  const gated = await startMcpServer([process.execPath, command, "mcp-gate", "--state", state, "--"], {
    COUNTERSIGN_URL: `http://127.0.0.1:${service.port}`,
    COUNTERSIGN_KEY: service.key
  })
  await compare("mcp-gate", (id, governed) => (governed ? gated : direct).call(id))
  await Promise.all([direct.close(), gated.close()])
  rmSync(state, { recursive: true })
} finally {
  await client.close()
  await stopAll([service.child])
  await store.dispose()
}
