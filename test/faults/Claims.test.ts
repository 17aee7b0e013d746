import { assert, layer } from "@effect/vitest"
import { Array as Arr, Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import type { ClaimId } from "../../src/domain/Ids.ts"
import { Deadlines } from "../../src/server/approvals/Deadlines.ts"
import { Countersign } from "../../src/testing/index.ts"
import { seededRandom } from "../support/breakingProxy.ts"
import { layerTwoReplicas, SecondReplica } from "../support/twoReplicas.ts"

/* COUNTERSIGN_CLAIM_KILLS is the number of rounds, 200 in `npm run verify`. COUNTERSIGN_CLAIM_SEED repeats the choice of the killed agents. */
const ROUNDS = Number(process.env["COUNTERSIGN_CLAIM_KILLS"] ?? 8)
const SEED = Number(process.env["COUNTERSIGN_CLAIM_SEED"] ?? Date.now() % 1_000_000)

const AGENT = fileURLToPath(new URL("claimingAgent.js", import.meta.url))

/** An agent in a process of its own, and the lines that it has printed. */
interface Agent {
  readonly send: (step: string) => void
  /** Returns the first line that matches; undefined if the process ends before. */
  readonly line: (pattern: RegExp) => Promise<string | undefined>
  readonly kill: () => Promise<void>
}

const startAgent = async (environment: Readonly<Record<string, string>>): Promise<Agent> => {
  const child: ChildProcess = spawn(process.execPath, [AGENT], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { PATH: process.env["PATH"], ...environment }
  })
  const lines: Array<string> = []
  const waiting = new Set<() => void>()
  const notifyAll = () => {
    for (const notify of waiting) notify()
  }
  const ended = once(child, "exit").then(notifyAll)
  if (child.stdout === null || child.stdin === null) throw new Error("The agent must have pipes")
  const { stdin } = child
  // Writing to a killed process fails.
  stdin.on("error", () => undefined)
  createInterface({ input: child.stdout }).on("line", (line) => {
    lines.push(line)
    notifyAll()
  })
  const line = async (pattern: RegExp): Promise<string | undefined> =>
    await new Promise((done) => {
      const look = () => {
        const found = lines.find((one) => pattern.test(one))
        if (found === undefined && child.exitCode === null && child.signalCode === null) return
        waiting.delete(look)
        done(found)
      }
      waiting.add(look)
      look()
    })
  await line(/^ready$/)
  return {
    send: (step) => void stdin.write(`${step}\n`),
    line,
    kill: async () => {
      child.kill("SIGKILL")
      await ended
    }
  }
}

layer(layerTwoReplicas, { excludeTestServices: true, timeout: "60 seconds" })(
  "Claims › killed agents",
  (it) => {
    it.effect(
      `after ${ROUNDS} kills between claim and outcome, no step was executed twice, and every uncertain one is shown (seed ${SEED})`,
      () =>
        Effect.gen(function* () {
          const random = seededRandom(SEED)
          const second = yield* SecondReplica
          const replicas = [yield* Countersign, yield* Effect.provideContext(Countersign, second)] as const
          const admin = yield* replicas[0].client({ preset: "admin" }, "kills")
          yield* admin.approvalRules.replace({ payload: { rules: [{ tool: "pay", effect: "allow" }] } })
          const key = yield* replicas[0].key({ preset: "runtime" }, "kills")
          const client = yield* replicas[0].clientWith(key)
          const { session_id } = yield* client.sessions.create({})
          const directory = mkdtempSync(path.join(tmpdir(), "countersign-claims-"))
          const ledger = path.join(directory, "ledger")
          writeFileSync(ledger, "")
          const start = (index: 0 | 1) =>
            startAgent({
              AGENT: String(index),
              KEY: Redacted.value(key),
              LEDGER: ledger,
              SESSION: session_id,
              URL: replicas[index].url
            })
          const steps = Arr.makeBy(ROUNDS, (round) => `step-${round}`)
          const agents = yield* Effect.acquireRelease(
            Effect.promise(async () => [await start(0), await start(1)]),
            (started) =>
              Effect.promise(async () => await Promise.all(started.map(async (one) => await one.kill())))
          )
          yield* Effect.promise(async () => {
            for (const step of steps) {
              for (const agent of agents) agent.send(step)
              // The holder is killed once it has claimed, or also executed; its tool takes a few milliseconds.
              const point = random() < 0.5 ? "claimed" : "executed"
              const holder = await Promise.race(
                agents.map(async (agent, index) =>
                  (await agent.line(new RegExp(`^${point} ${step}$`))) === undefined
                    ? await new Promise<never>(() => undefined)
                    : index
                )
              )
              const other = agents[1 - holder]
              await agents[holder]?.kill()
              // The other may have asked before the claim was written, and is refused by now.
              assert.match(
                (await other?.line(new RegExp(`^(refused|claimed) ${step}`))) ?? "",
                /^refused .* STEP_ALREADY_CLAIMED/
              )
              agents[holder] = await start(holder === 0 ? 0 : 1)
              // As an agent does that was restarted, and does not know how far it had come.
              agents[holder]?.send(step)
              assert.match(
                (await agents[holder]?.line(new RegExp(`^(refused|claimed) ${step}`))) ?? "",
                /^refused .* STEP_ALREADY_CLAIMED (executing|completed)$/
              )
            }
          })
          const executed = readFileSync(ledger, "utf8")
            .trim()
            .split("\n")
            .filter((line) => line !== "")
          rmSync(directory, { recursive: true, force: true })
          const executedSteps = executed.map((line) => line.split(" ")[0] ?? "")
          assert.strictEqual(new Set(executedSteps).size, executedSteps.length, "a step was executed twice")
          const sql = yield* SqlClient.SqlClient
          yield* sql`
          UPDATE governed_steps
          SET claim_expires_at = claim_expires_at - interval '2 hours'
          WHERE session_id = ${session_id}
            AND execution = 'executing'
        `
          yield* (yield* Deadlines).runOnce
          const completed = yield* sql<{ readonly step_id: string }>`
          SELECT step_id
          FROM governed_steps
          WHERE session_id = ${session_id}
            AND outcome_at IS NOT NULL
        `
          const shown: Array<string> = []
          let cursor: ClaimId | undefined
          do {
            const query = { state: "unknown" as const, ...(cursor === undefined ? {} : { cursor }) }
            const page = yield* admin.executions.list({ query })
            shown.push(...page.executions.map(({ step_id }) => step_id))
            cursor = page.next_cursor ?? undefined
          } while (cursor !== undefined)
          const certain = new Set(completed.map(({ step_id }) => step_id))
          assert.sameMembers(
            shown,
            steps.filter((step) => !certain.has(step))
          )
          // Not a single kill may have come too late, or the test would show nothing.
          assert.isAbove(shown.length, 0)
          for (const step of certain) assert.include(executedSteps, step)
        }),
      600_000
    )
  }
)
