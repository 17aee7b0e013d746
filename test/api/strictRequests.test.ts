import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { OpenApi } from "effect/http-api"
import { ConsoleApi } from "../../src/api/Console.ts"
import { endUserFeedbackPath } from "../../src/api/EndUserFeedback.ts"
import { openApiDocument } from "../../src/api/openApiDocument.ts"
import { Countersign } from "../../src/testing/index.ts"
import { spoiltValues, UNKNOWN } from "../support/closedObjects.ts"
import { consoleHeaders } from "../support/consoleCookie.ts"
import { definitionsOf, operationsOf } from "../support/robustness/requests.ts"
import { send, service } from "../support/service.ts"

/** The operation that takes the body of another vendor. */
const FOREIGN = "answerClaudeCodeHook"

/** The operation that takes a feedback token instead of a key. It has a test of its own. */
const END_USERS = "submitEndUserFeedback"

/** The operations of a document, their paths with an identifier of the right kind in each place. */
const requestsOf = (document: OpenApi.OpenAPISpec) => {
  const definitions = definitionsOf(document)
  const schemaOf = (name: string) => JSON.stringify(definitions[name] ?? {})
  return operationsOf(document).map((operation) => {
    const parameters = document.paths[operation.path]?.[methodOf(operation.method)]?.parameters ?? []
    const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
      const schema = JSON.stringify(parameters.find((one) => one.in === "path" && one.name === name)?.schema)
      const text = schema.replace(/"\$ref":"#\/components\/schemas\/(\w+)"/, (_, name: string) =>
        schemaOf(name)
      )
      const [, prefix = "s", digits] =
        /"\^\(?([a-z]{3}_?)?(?:\|\w+\)_)?(\[0-9a-f\]\{32\})\$"/.exec(text) ?? []
      return digits === undefined ? "s" : `${prefix === "s" ? "" : prefix}${"0".repeat(32)}`
    })
    const bodies = operation.body === undefined ? [] : spoiltValues(operation.body, definitions)
    return { ...operation, path: path.replace(/(?<=.)\/$/, ""), bodies }
  })
}

const methodOf = (method: string) => {
  switch (method) {
    case "POST":
      return "post"
    case "PUT":
      return "put"
    case "PATCH":
      return "patch"
    case "DELETE":
      return "delete"
    default:
      return "get"
  }
}

const unknown = (detail: string) => /^Is not a (member|parameter)(;|:|$)/.test(detail)

layer(service(), { excludeTestServices: true })("Strict requests", (it) => {
  const apis = [
    { api: "the API", document: openApiDocument(), isConsole: false },
    { api: "the console's API", document: OpenApi.fromApi(ConsoleApi), isConsole: true }
  ]
  it.effect.each(apis)(
    "every operation of $api refuses an unknown query parameter, an unknown member of each object, and a body that it does not have",
    ({ document, isConsole }) =>
      Effect.gen(function* () {
        const key = yield* (yield* Countersign).key()
        const authorized = isConsole ? { headers: yield* consoleHeaders(key) } : { key }
        const requests = requestsOf(document).filter(({ id }) => id !== END_USERS)
        assert.isAbove(requests.length, 20)
        for (const { bodies, id, method, path } of requests) {
          const request = { method, ...authorized }
          const queried = yield* send(`${path}?${UNKNOWN}=1`, {
            ...request,
            ...(bodies.length === 0 ? {} : { body: "{}" })
          })
          assert.strictEqual(
            queried.status,
            id === FOREIGN ? 200 : 400,
            `${id}: ${JSON.stringify(queried.body)}`
          )
          if (id === FOREIGN) continue
          const named = queried.errors.find(({ pointer }) => pointer === `#/${UNKNOWN}`)
          assert.isTrue(unknown(named?.detail ?? ""), `${id}: ${JSON.stringify(queried.body)}`)
          if (bodies.length === 0 && method !== "GET") {
            const answer = yield* send(path, { ...request, body: JSON.stringify({ [UNKNOWN]: 1 }) })
            assert.strictEqual(answer.body["code"], "INVALID_REQUEST", id)
          }
          for (const { pointer, value } of bodies) {
            const answer = yield* send(path, { ...request, body: JSON.stringify(value) })
            const message = `${id} ${pointer}: ${JSON.stringify(answer.body)}`
            assert.strictEqual(answer.status, 400, message)
            const fault = answer.errors.find((one) => one.pointer === `#${pointer}`)
            assert.isTrue(unknown(fault?.detail ?? ""), message)
          }
        }
      })
  )

  it.effect(
    "end users' feedback with an unknown member or parameter is refused; a secret scanner's report is not",
    () =>
      Effect.gen(function* () {
        const client = yield* (yield* Countersign).client()
        const object = { type: "object" }
        const task = yield* client.tasks.create({
          payload: { name: "Triage", input_schema: object, answer_schema: object }
        })
        const { trace_id } = yield* client.tasks.run({
          params: { id: task.id },
          payload: { input: {}, answer: {} }
        })
        const { token } = yield* client.feedback.createToken({ params: { id: trace_id }, payload: {} })
        const given = yield* send(endUserFeedbackPath(trace_id), {
          method: "POST",
          key: token,
          body: JSON.stringify({ score: 1, comments: "good" })
        })
        const queried = yield* send(`${endUserFeedbackPath(trace_id)}?${UNKNOWN}=1`, {
          method: "POST",
          key: token,
          body: JSON.stringify({ score: 1 })
        })
        assert.deepInclude(queried.errors[0], { pointer: `#/${UNKNOWN}` })
        assert.deepStrictEqual(given.errors, [
          { pointer: "#/comments", detail: "Is not a member; did you mean comment?" }
        ])
        const report = [
          { token: "csk_none", type: "countersign", url: "https://example.com", source: "content" }
        ]
        const reported = yield* send("/leaked-keys", { method: "POST", body: JSON.stringify(report) })
        assert.isBelow(reported.status, 300)
      })
  )
})
