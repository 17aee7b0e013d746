/**
 * An agent in a process of its own, for tests that kill it. It reads the names of steps from its standard input, runs each once it may, and
 * writes what happens to its standard output. The variable `EXECUTED` names the file to which its tool appends each execution.
 */
import { appendFileSync } from "node:fs"
import { createInterface } from "node:readline"
import { makeToolGate } from "../../src/adapters/toolGate.ts"
import { connect } from "../../src/client/connect/index.ts"

const { EXECUTED = "", SESSION = "" } = process.env
const gate = makeToolGate({ client: connect(), session: SESSION, leaseSeconds: 1 })

const say = (line: string) => void process.stdout.write(`${line}\n`)

const run = async (step: string): Promise<void> => {
  const end = await gate.run({ id: step, tool: "read", arguments: {} }, undefined, async () => {
    appendFileSync(EXECUTED, `${step}\n`)
    say(`executing ${step}`)
    // Steps that hang are killed while they run.
    if (step.startsWith("hang")) await new Promise((done) => setTimeout(done, 600_000))
  })
  say(`ended ${step} ${end.verdict === "deny" ? end.cause : end.verdict}`)
}

createInterface({ input: process.stdin }).on("line", (step) => void run(step))
say("ready")
