import { Effect } from "effect"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { isObject, type JsonObject } from "../../../src/cli/mcp/jsonRpc.ts"
import { spawnCli } from "../../support/process.ts"
import type { GovernedRun } from "../governedRun.ts"
import { eventually } from "./eventually.ts"

/** The `_meta` of a request of the stateless protocol, of a client that can show links. */
export const stateless = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1.0.0" },
  "io.modelcontextprotocol/clientCapabilities": { elicitation: { url: {} } }
}

/** A gate whose messages a test writes itself, byte for byte. */
export const rawGate = (run: Pick<GovernedRun, "key" | "url">, directory: string) =>
  Effect.gen(function* () {
    const server = fileURLToPath(new URL("server.ts", import.meta.url))
    const gate = yield* spawnCli(
      [
        "mcp-gate",
        "--service",
        run.url,
        "--state",
        path.join(directory, "state"),
        "--",
        process.execPath,
        server
      ],
      {
        COUNTERSIGN_KEY: run.key,
        EXECUTED: path.join(directory, "executed"),
        DESCRIPTION: path.join(directory, "description")
      }
    )
    const all = () => Effect.runPromise(gate.waitForStdout(/^/))
    const messages = async (): Promise<ReadonlyArray<JsonObject>> =>
      (await all())
        .split("\n")
        .filter((line) => line !== "")
        .map((line): unknown => JSON.parse(line))
        .filter(isObject)
    let ids = 0
    return {
      ...gate,
      messages,
      send: (text: string) => Effect.runPromise(gate.write(`${text}\n`)),
      /** Calls a tool in the stateless protocol, and returns the response. */
      call: async (params: JsonObject): Promise<JsonObject> => {
        const id = `test ${++ids}`
        const request = { jsonrpc: "2.0", id, method: "tools/call", params: { _meta: stateless, ...params } }
        await Effect.runPromise(gate.write(`${JSON.stringify(request)}\n`))
        return eventually(async () => {
          const found = (await messages()).find((message) => message["id"] === id)
          if (found === undefined) throw new Error(`no response to ${JSON.stringify(request)}`)
          return found
        })
      }
    }
  })
