// An agent that claims each step named on stdin, executes it by a line in a ledger, and reports the outcome.
import { appendFileSync } from "node:fs"
import { createInterface } from "node:readline"
import { setTimeout } from "node:timers/promises"

const { AGENT, KEY, LEDGER, SESSION, URL: origin } = process.env
const post = async (path, body) => {
  const answer = await fetch(`${origin}/v1/agent-sessions/${SESSION}/steps${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" },
    body: JSON.stringify(body)
  })
  return { status: answer.status, body: await answer.json() }
}

/** The tool takes a few milliseconds, in which the agent can be killed. */
const work = () => setTimeout(Math.random() * 4)

console.log("ready")
for await (const step_id of createInterface({ input: process.stdin })) {
  const step = { step_id, tool: "pay", action_class: "write", claim: true }
  const { body, status } = await post("", step)
  if (status === 200) {
    console.log(`claimed ${step_id}`)
    await work()
    appendFileSync(LEDGER, `${step_id} ${AGENT}\n`)
    console.log(`executed ${step_id}`)
    await work()
    await post(`/${step_id}/outcome`, { status: "succeeded", claim_id: body.claim.id })
    console.log(`done ${step_id}`)
  } else console.log(`refused ${step_id} ${body.code} ${body.state}`)
}
