import { afterEach, assert, describe, it } from "vitest"
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { type CallEnd, openJournal } from "../../../src/cli/mcpGate/Journal.ts"

const made: Array<string> = []

const temporary = (): string => {
  const directory = mkdtempSync(path.join(tmpdir(), "countersign-journal-"))
  made.push(directory)
  return directory
}

afterEach(() => {
  for (const directory of made.splice(0)) rmSync(directory, { recursive: true, force: true })
})

const record = {
  session: "ses_1",
  step_id: "call_1",
  tool: "pay",
  action_class: "write",
  digest: "0".repeat(64),
  definition: "1".repeat(64),
  claim_key: "2".repeat(32),
  claim_id: null
}
const end: CallEnd = { response: { result: "paid" }, failure: null, isUnknown: false }

/** The state of the call in the eyes of the next process. */
const stateIn = async (directory: string): Promise<string | undefined> =>
  (await (await openJournal(directory)).find("call_1"))?.state

describe("the journal of calls", () => {
  it("tells the next process how far a call has come", async () => {
    const directory = temporary()
    const journal = await openJournal(directory)
    assert.isUndefined(await stateIn(directory))
    await journal.asked(record)
    assert.strictEqual(await stateIn(directory), "asked")
    assert.isTrue(await journal.started(record, 0))
    assert.strictEqual(await stateIn(directory), "interrupted")
    await journal.answered("call_1", 0)
    assert.strictEqual(await stateIn(directory), "asked")
    assert.isTrue(await journal.started(record, 1))
    assert.strictEqual(await stateIn(directory), "interrupted")
    await journal.ended("call_1", end)
    const left = async () => (await openJournal(directory)).left()
    assert.deepStrictEqual(await left(), [{ state: "ended", record, end, isDelivered: false }])
    await journal.delivered("call_1")
    assert.deepStrictEqual(await left(), [{ state: "ended", record, end, isDelivered: true }])
    await journal.forget("call_1")
    assert.isUndefined(await stateIn(directory))
    assert.deepStrictEqual(readdirSync(directory), [])
  })

  it("passes over files that are not its own or not whole", async () => {
    const directory = temporary()
    const journal = await openJournal(directory)
    await journal.asked(record)
    writeFileSync(path.join(directory, "call_2.call.json"), '{"session":"ses_1"')
    writeFileSync(path.join(directory, "call_1.end.json"), "{")
    const left = await journal.left()
    assert.deepStrictEqual(
      left.map(({ state }) => state),
      ["asked"]
    )
  })
})
