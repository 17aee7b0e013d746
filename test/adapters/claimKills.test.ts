import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { seededRandom } from "../support/breakingProxy.ts"
import { service } from "../support/service.ts"
import { governedRun } from "./governedRun.ts"
import { eventually } from "./mcp/eventually.ts"

/** `npm run verify` kills 200 agents. */
const ROUNDS = Number(process.env["COUNTERSIGN_CLAIM_KILLS"] ?? 8)
const SEED = Number(process.env["COUNTERSIGN_TEST_SEED"] ?? 20_261_125)

interface Agent {
  readonly child: ChildProcess
  /** Resolves with the first line of the output from now on, or before, that begins with a text; undefined if the process ends without one. */
  readonly line: (start: string) => Promise<string | undefined>
  readonly submit: (step: string) => void
}

const startAgent = (environment: Readonly<Record<string, string>>): Agent => {
  const file = fileURLToPath(new URL("claimingAgent.ts", import.meta.url))
  const child = spawn(process.execPath, ["--conditions=@countersign/source", file], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { PATH: process.env["PATH"], NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"], ...environment }
  })
  let output = ""
  let hasEnded = false
  child.stdin.on("error", () => undefined)
  child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()))
  child.once("close", () => (hasEnded = true))
  return {
    child,
    line: (start) =>
      new Promise((resolve) => {
        const look = () => {
          const found = output.split("\n").find((line) => line.startsWith(start))
          if (found === undefined && !hasEnded) return
          child.stdout.off("data", look)
          child.off("close", look)
          resolve(found)
        }
        child.stdout.on("data", look)
        child.once("close", look)
        look()
      }),
    submit: (step) => void child.stdin.write(`${step}\n`)
  }
}

layer(service(), { excludeTestServices: true, timeout: "60 seconds" })("claims › kills", (it) => {
  it.effect(
    `${ROUNDS} agents that are killed between claim and outcome execute each step at most once, and every uncertain one is listed`,
    () =>
      Effect.gen(function* () {
        const { client, executions, key, outcomes, session, url } = yield* governedRun("claim kills")
        const directory = mkdtempSync(path.join(tmpdir(), "countersign-claims-"))
        const executed = path.join(directory, "executed")
        writeFileSync(executed, "")
        const agents = new Set<Agent>()
        yield* Effect.addFinalizer(() =>
          Effect.sync(() => {
            for (const { child } of agents) child.kill("SIGKILL")
            rmSync(directory, { recursive: true })
          })
        )
        const random = seededRandom(SEED)
        const start = async (): Promise<Agent> => {
          const agent = startAgent({
            COUNTERSIGN_URL: url,
            COUNTERSIGN_KEY: key,
            SESSION: session,
            EXECUTED: executed
          })
          agents.add(agent)
          assert.strictEqual(await agent.line("ready"), "ready")
          return agent
        }

        yield* Effect.promise(async () => {
          let pair = await Promise.all([start(), start()])
          const steps: Array<string> = []
          for (let round = 0; round < ROUNDS; round++) {
            // Most are killed while their tool runs, some at any time around the claim.
            const step = `${round % 4 === 3 ? "short" : "hang"} ${round}`
            steps.push(step)
            for (const agent of pair) agent.submit(step)
            const victim = step.startsWith("hang")
              ? await Promise.race(
                  pair.map(async (agent) =>
                    (await agent.line(`executing ${step}`)) ? agent : new Promise<Agent>(() => undefined)
                  )
                )
              : (pair[round % 2] ?? assert.fail("no agent"))
            if (!step.startsWith("hang")) await new Promise((done) => setTimeout(done, random() * 30))
            victim.child.kill("SIGKILL")
            agents.delete(victim)
            const survivor = pair.find((agent) => agent !== victim) ?? assert.fail("no survivor")
            const next = await start()
            // The step is resumed after the crash.
            next.submit(step)
            const resumed = await Promise.all([survivor.line(`ended ${step}`), next.line(`ended ${step}`)])
            for (const end of resumed)
              assert.match(end ?? "none", new RegExp(`^ended ${step} (executed|executing|unknown)$`))
            pair = [survivor, next]
          }

          await eventually(async () => {
            const listed = await executions()
            const lines = readFileSync(executed, "utf8").split("\n").filter(Boolean)
            assert.strictEqual(new Set(lines).size, lines.length, "a step was executed twice")
            const unknown = listed
              .filter(({ state }) => state === "unknown")
              .map(({ step_id }) => String(step_id))
            assert.includeMembers(
              unknown,
              steps.filter((step) => step.startsWith("hang"))
            )
            for (const step of lines.filter((line) => !unknown.includes(line))) {
              // Completed: neither agent can claim it.
              const again = await client.sessions
                .step({
                  params: { id: session },
                  payload: { step_id: step, tool: "read", action_class: "write", arguments: {}, claim: true }
                })
                .catch((error: unknown) => error)
              assert.deepInclude(again, { code: "STEP_ALREADY_CLAIMED", state: "completed" })
            }
          })
          const recorded = (await outcomes()).map(({ step_id }) => step_id)
          const unknown = (await executions()).map(({ step_id }) => String(step_id))
          assert.sameMembers([...recorded, ...unknown], steps)
        })
      }),
    60_000 + ROUNDS * 6_000
  )
})
