import { assert, layer } from "@effect/vitest"
import { Effect, Redacted, Schema } from "effect"
import { createServer } from "node:http"
import { REVIEW_INSTRUCTIONS } from "../../../../src/domain/approvals/Reviewer/reviewPrompt.ts"
import { JsonObject } from "../../../../src/domain/tasks/Dataset.ts"
import { StepId } from "../../../../src/domain/Ids.ts"
import { allInjections } from "../../../support/injections.ts"
import { listenOnFreePort } from "../../../support/listenOnFreePort.ts"
import { reviewedTeam } from "../../../support/reviewedTeam.ts"
import { service } from "../../../support/service.ts"

const Chat = Schema.Struct({
  messages: Schema.Array(Schema.Struct({ role: Schema.String, content: Schema.String })),
  tools: Schema.optional(Schema.Unknown),
  functions: Schema.optional(Schema.Unknown)
})
const decodeChat = Schema.decodeUnknownSync(Schema.fromJsonString(Chat))
const decodeInput = Schema.decodeUnknownSync(Schema.fromJsonString(JsonObject))

/** A model server that keeps what it is asked and is always unsure. */
const listeningModel = Effect.acquireRelease(
  Effect.promise(async () => {
    const asked: Array<typeof Chat.Type> = []
    const server = createServer((request, response) => {
      const chunks: Array<Buffer> = []
      request.on("data", (chunk: Buffer) => chunks.push(chunk))
      request.on("end", () => {
        asked.push(decodeChat(Buffer.concat(chunks).toString()))
        const content = JSON.stringify({ decision: "unsure", reason: "Listening" })
        response.writeHead(200, { "content-type": "application/json" }).end(
          JSON.stringify({
            choices: [{ finish_reason: "stop", message: { role: "assistant", content } }],
            usage: { prompt_tokens: 1, completion_tokens: 1 }
          })
        )
      })
    })
    return { server, asked, url: `http://127.0.0.1:${await listenOnFreePort(server)}/v1` }
  }),
  ({ server }) =>
    Effect.promise(async () => {
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
    })
)

layer(service({ environment: { COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" } }), {
  excludeTestServices: true,
  timeout: "120 seconds"
})("injections through a step", (it) => {
  it.effect(
    "reach the model as one JSON value that is not part of the instructions, wherever the agent puts them",
    () =>
      Effect.gen(function* () {
        const model = yield* listeningModel
        const { agent } = yield* reviewedTeam("injections", {
          provider: {
            kind: "openai",
            base_url: model.url,
            model: "small",
            api_key: Redacted.make("secret")
          }
        })
        const systems = new Set<string>()
        for (const text of new Set(allInjections.map(([, text]) => text))) {
          const args = { amount: 10, note: text, [text.slice(0, 60)]: [{ text }] }
          const metadata = { origin: text }
          const { session_id } = yield* agent.sessions.create({ payload: { metadata } })
          const before = model.asked.length
          const step = yield* agent.sessions.step({
            params: { id: session_id },
            payload: {
              step_id: StepId.make("one"),
              tool: "payments.refund",
              action_class: text.replaceAll(/[^ -~]/g, " ").slice(0, 100),
              arguments: args,
              summary: text.slice(0, 200)
            }
          })
          assert.strictEqual(step.decision, "pending")
          const { functions, messages, tools } = model.asked[before] ?? assert.fail("it was asked")
          assert.deepStrictEqual([functions, tools], [undefined, undefined])
          assert.deepStrictEqual(
            messages.map(({ role }) => role),
            ["system", "user"]
          )
          const [system, user] = messages
          assert.isTrue(system?.content.includes(REVIEW_INSTRUCTIONS))
          systems.add(system?.content ?? "")
          const input = decodeInput(user?.content ?? "")
          assert.deepStrictEqual(input["arguments"], args)
          assert.deepInclude(input["session"], { metadata })
        }
        // None has changed a letter of the instructions.
        assert.strictEqual(systems.size, 1)
      }).pipe(Effect.orDie, Effect.scoped)
  )
})
