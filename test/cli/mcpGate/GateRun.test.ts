import { afterEach, assert, describe, it } from "vitest"
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import type { CountersignClient } from "../../../src/client/connect.ts"
import { openRun } from "../../../src/cli/mcpGate/GateRun.ts"
import { openJournal } from "../../../src/cli/mcpGate/Journal.ts"

/** Windows has no modes of files. */
const hasNoModes = process.platform === "win32"
if (hasNoModes) process.stderr.write("the modes of the journal's files are not checked: Windows has none\n")

const made: Array<string> = []

const temporary = (): string => {
  const directory = mkdtempSync(path.join(tmpdir(), "countersign-run-"))
  made.push(directory)
  return directory
}

afterEach(() => {
  for (const directory of made.splice(0)) rmSync(directory, { recursive: true, force: true })
})

/** A service with sessions, and the keys with which they were created. */
const sessions = () => {
  const keys: Array<string> = []
  const closed = new Set<string>()
  const operations: unknown = {
    create: async ({ headers }: { headers: { "idempotency-key": string } }) => {
      const key = headers["idempotency-key"]
      if (!keys.includes(key)) keys.push(key)
      return { session_id: `ses_${keys.indexOf(key)}` }
    },
    get: async ({ params }: { params: { id: string } }) => ({
      status: closed.has(params.id) ? "closed" : "open"
    }),
    close: async ({ params }: { params: { id: string } }) => void closed.add(params.id)
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the three operations that a run calls
  const client = { sessions: operations as CountersignClient["sessions"] }
  return { client, keys, closed }
}

const open = (directory: string, client: Pick<CountersignClient, "sessions">, session?: string) =>
  openRun({ directory, client, session, metadata: () => ({}), log: () => undefined })

/** Makes the runs of this process those of one that has ended. */
const endOwners = (directory: string): void => {
  for (const run of readdirSync(path.join(directory, "runs"))) {
    const file = path.join(directory, "runs", run, "owner.json")
    const owner: unknown = JSON.parse(readFileSync(file, "utf8"))
    writeFileSync(file, JSON.stringify(Object.assign({}, owner, { pid: 2 ** 22 + 1 })))
  }
}

const record = {
  session: "ses_0",
  step_id: "call_1",
  tool: "refund",
  action_class: "write",
  digest: "d",
  definition: "e",
  claim_key: "f",
  claim_id: null
}

describe("GateRun", () => {
  it("continues the run of a process that has ended, with its session and its calls", async () => {
    const directory = temporary()
    const { client, keys } = sessions()
    const first = await open(directory, client)
    assert.strictEqual(await first.session(), "ses_0")
    await first.journal.asked(record)
    endOwners(directory)

    const second = await open(directory, client)
    assert.strictEqual(await second.session(), "ses_0")
    assert.deepStrictEqual(second.left, [{ state: "asked", record }])
    assert.lengthOf(keys, 1)
  })

  it("begins another run while the process of the first is alive", async () => {
    const directory = temporary()
    const { client } = sessions()
    const [first, second] = await Promise.all([open(directory, client), open(directory, client)])
    assert.notStrictEqual(await first.session(), await second.session())
  })

  it("gives the run of a process that has ended to one of several gates", async () => {
    const directory = temporary()
    const { client } = sessions()
    await (await open(directory, client)).session()
    endOwners(directory)
    const opened = await Promise.all(Array.from({ length: 5 }, () => open(directory, client)))
    const ids = await Promise.all(opened.map((run) => run.session()))
    assert.lengthOf(new Set(ids), 5)
    assert.include(ids, "ses_0")
  })

  it("creates a session once if it was killed before it had the response", async () => {
    const directory = temporary()
    const { client, keys } = sessions()
    const first = await open(directory, client)
    await first.session()
    const [run = ""] = readdirSync(path.join(directory, "runs"))
    const file = path.join(directory, "runs", run, "session.json")
    const saved: unknown = JSON.parse(readFileSync(file, "utf8"))
    writeFileSync(file, JSON.stringify(Object.assign({}, saved, { session_id: null })))
    endOwners(directory)
    assert.strictEqual(await (await open(directory, client)).session(), "ses_0")
    assert.lengthOf(keys, 1)
  })

  it("begins another session if the first was closed meanwhile", async () => {
    const directory = temporary()
    const { client, closed } = sessions()
    await (await open(directory, client)).session()
    closed.add("ses_0")
    endOwners(directory)
    assert.strictEqual(await (await open(directory, client)).session(), "ses_1")
  })

  it("closes its own session at the end and leaves nothing, and keeps both if calls are open", async () => {
    const directory = temporary()
    const { client, closed } = sessions()
    const run = await open(directory, client)
    await run.session()
    await run.end({ hasOpenCalls: true })
    assert.lengthOf(readdirSync(path.join(directory, "runs")), 1)
    await run.end({ hasOpenCalls: false })
    assert.deepStrictEqual([...closed], ["ses_0"])
    assert.lengthOf(readdirSync(path.join(directory, "runs")), 0)
  })

  it("refuses a given session that another gate uses, and does not close it", async () => {
    const directory = temporary()
    const { client, closed } = sessions()
    const run = await open(directory, client, "ses_7")
    assert.strictEqual(await run.session(), "ses_7")
    const second = await open(directory, client, "ses_7").catch((error: unknown) => String(error))
    assert.include(second, "another gate in front of the same server")
    await run.end({ hasOpenCalls: false })
    assert.strictEqual(closed.size, 0)
  })
})

describe("Journal", () => {
  it("tells calls that were not sent, of unknown outcome, and executed apart", async () => {
    const directory = temporary()
    const journal = await openJournal(directory)
    const end = { response: { result: { content: [] } }, failure: null, isUnknown: false }
    for (const [step_id, steps] of Object.entries({
      asked: [],
      interrupted: [() => journal.started({ ...record, step_id: "interrupted" }, 0)],
      question: [
        () => journal.started({ ...record, step_id: "question" }, 0),
        () => journal.answered("question", 0)
      ],
      second: [
        () => journal.started({ ...record, step_id: "second" }, 0),
        () => journal.answered("second", 0),
        () => journal.started({ ...record, step_id: "second" }, 1)
      ],
      ended: [() => journal.started({ ...record, step_id: "ended" }, 0), () => journal.ended("ended", end)]
    })) {
      await journal.asked({ ...record, step_id })
      for (const step of steps) await step()
    }
    const left = await (await openJournal(directory)).left()
    assert.deepStrictEqual(Object.fromEntries(left.map(({ record, state }) => [record.step_id, state])), {
      asked: "asked",
      interrupted: "interrupted",
      question: "asked",
      second: "interrupted",
      ended: "ended"
    })
    for (const { record } of left) await journal.forget(record.step_id)
    assert.deepStrictEqual(readdirSync(directory), [])
  })

  it("does not know the outcome of a call of which a crash of the machine left its start alone", async () => {
    const directory = temporary()
    await (await openJournal(directory)).started(record, 0)
    const journal = await openJournal(directory)
    assert.deepStrictEqual(await journal.left(), [{ state: "interrupted", record }])
    assert.isFalse(await journal.started(record, 0))
  })

  it("starts each leg of a call once, whichever process tries", async () => {
    const directory = temporary()
    const journals = await Promise.all(Array.from({ length: 8 }, () => openJournal(directory)))
    const started = await Promise.all(journals.map((journal) => journal.started(record, 0)))
    assert.lengthOf(
      started.filter((isFirst) => isFirst),
      1
    )
    assert.isTrue(await journals[0]?.started(record, 1))
  })

  it.skipIf(hasNoModes)("is for its account only", async () => {
    const directory = path.join(temporary(), "calls")
    const journal = await openJournal(directory)
    await journal.asked(record)
    assert.strictEqual(statSync(directory).mode & 0o777, 0o700)
    for (const name of readdirSync(directory)) {
      assert.strictEqual(statSync(path.join(directory, name)).mode & 0o777, 0o600)
    }
  })
})
