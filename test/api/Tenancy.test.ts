import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import { Countersign } from "../../src/testing/index.ts"
import { service } from "../support/service.ts"
import { type Operation, operations, type Request, targetOf } from "../support/seedOneOfEach/operations.ts"
import { requestOf } from "../support/seedOneOfEach/requests.ts"
import {
  type SeededOrganization,
  seedOneOfEach,
  seedEnvironment
} from "../support/seedOneOfEach/seedOneOfEach.ts"

/** A response. */
interface Response {
  readonly status: number
  readonly text: string
}

/** How a request is authenticated: with a key, or with a browser session. */
interface Caller {
  readonly base: string
  readonly headers: Readonly<Record<string, string>>
}

const ID = /\b[a-z]{3}_[0-9a-f]{32}\b/g

/** Replaces ids, times and tokens, which differ between requests, by constants. */
const masked = (text: string, asked: ReadonlyArray<string>): string =>
  text
    .replaceAll(/"req_[0-9a-f]{32}"/g, '"req"')
    .replaceAll(ID, (id) => (asked.includes(id) ? "asked" : id.slice(0, 3)))
    .replaceAll(/\b[0-9a-f]{32,64}\b/g, (digits) => (asked.includes(digits) ? "asked" : "digits"))
    .replaceAll(/"\d{4}-\d\d-\d\dT[\d:.]+Z"/g, '"time"')
    .replaceAll(/"(secret|url_hint)":"[^"]*"/g, '"$1":""')
    .replaceAll(/"(revision|duration_ms|now|expires_at)":[\d.]+/g, '"$1":0')

/** Sends a request. A stream is cancelled after its headers. */
const ask = ({ base, headers }: Caller, operation: Operation, request: Request) =>
  Effect.promise(async (): Promise<Response> => {
    const { body } = request
    const answer = await fetch(base + targetOf(operation, request), {
      method: operation.method,
      headers: { "content-type": "application/json", ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    if (answer.headers.get("content-type")?.startsWith("text/event-stream") === true) {
      await answer.body?.cancel()
      return { status: answer.status, text: "a stream" }
    }
    return { status: answer.status, text: await answer.text() }
  })

/** The same request with one id replaced by another everywhere. */
const exchanged = ({ body, params = {}, query = {} }: Request, id: string, by: string): Request => {
  const swap = (texts: Readonly<Record<string, string>>) =>
    Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, text === id ? by : text]))
  const swapped: unknown = JSON.parse(JSON.stringify(body ?? null).replaceAll(id, by))
  return { params: swap(params), query: swap(query), body: body === undefined ? undefined : swapped }
}

/** An id of the same kind that does not exist. */
const unknownLike = (id: string): string => {
  const at = id.indexOf("_") + 1
  return id.slice(0, at) + randomBytes(16).toString("hex")
}

/** The ids of a fixture that occur in a part of a request. */
const namedIn = (part: unknown, { ids }: SeededOrganization): ReadonlyArray<string> => {
  const text = JSON.stringify(part ?? null)
  return [...new Set(Object.values(ids))].filter((id) => text.includes(id))
}

/** Signs in to the console with a key. */
const signedIn = Effect.fnUntraced(function* (key: Redacted.Redacted) {
  const { url } = yield* Countersign
  const own = { origin: url.replace("http:", "https:"), "sec-fetch-site": "same-origin" }
  const answer = yield* Effect.promise(() =>
    fetch(`${url}/console/session`, {
      method: "POST",
      headers: { ...own, "content-type": "application/json" },
      body: JSON.stringify({ key: Redacted.value(key) })
    })
  )
  const cookie = answer.headers.getSetCookie()[0]?.split(";")[0] ?? assert.fail("a cookie")
  return { base: `${url}/console/api`, headers: { ...own, cookie } } satisfies Caller
})

/** The console's own requests with ids in them. */
const consoleRequests = ({ ids }: SeededOrganization): ReadonlyArray<readonly [Operation, Request]> => [
  [{ name: "inbox.get", method: "GET", path: "/../inbox/approvals/:id" }, { params: { id: ids.approval } }],
  [{ name: "health.get", method: "GET", path: "/../health/:id" }, { params: { id: ids.endpoint } }],
  [{ name: "health.get", method: "GET", path: "/../health/:id" }, { params: { id: ids.destination } }],
  [
    { name: "dataset_changes.get", method: "GET", path: "/../datasets/:id/changes" },
    { params: { id: ids.dataset }, query: { since: ids.dataset } }
  ],
  [{ name: "agreement.history", method: "GET", path: "/../agreement/:id" }, { params: { id: ids.task } }]
]

layer(service({ environment: seedEnvironment }), { excludeTestServices: true, timeout: "60 seconds" })(
  "Tenancy",
  (it) => {
    it.effect(
      "another organization's resource gets the same answer as a missing one, on every operation, by key and by session",
      () =>
        Effect.gen(function* () {
          const theirs = yield* seedOneOfEach("theirs")
          const { key, url } = yield* Countersign
          const admin = yield* key({}, "ours")
          const callers: ReadonlyArray<Caller> = [
            { base: url, headers: { authorization: `Bearer ${Redacted.value(admin)}` } },
            yield* signedIn(admin)
          ]
          const pathed = yield* Effect.forEach(
            operations.filter(({ path }) => path.includes("/:")),
            (operation) =>
              Effect.map(requestOf(operation.name, theirs), (request) => [operation, request] as const)
          )
          assert.isAbove(pathed.length, 30)
          for (const caller of callers) {
            const more = caller === callers[0] ? [] : consoleRequests(theirs)
            for (const [operation, request] of [...pathed, ...more]) {
              const named = namedIn(request, theirs)
              const nowhere = named.reduce((all, id) => exchanged(all, id, unknownLike(id)), request)
              const about = `${operation.name} ${JSON.stringify(request)}`
              const foreign = yield* ask(caller, operation, request)
              const absent = yield* ask(caller, operation, nowhere)
              if (operation.name !== "health.get")
                assert.strictEqual(foreign.status, 404, `${about}: ${foreign.text}`)
              assert.strictEqual(foreign.status, absent.status, about)
              assert.strictEqual(masked(foreign.text, []), masked(absent.text, []), about)
              for (const id of Object.values(theirs.ids)) assert.notInclude(foreign.text, id, about)
            }
          }
          // Its owner still finds every resource.
          const owners: ReadonlyArray<Caller> = [
            { base: url, headers: { authorization: `Bearer ${Redacted.value(theirs.key)}` } },
            yield* signedIn(theirs.key)
          ]
          for (const owner of owners) {
            const more = owner === owners[0] ? [] : consoleRequests(theirs)
            for (const [operation, request] of [...pathed, ...more]) {
              if (operation.method !== "GET") continue
              const { status, text } = yield* ask(owner, operation, request)
              assert.strictEqual(status, 200, `${operation.name}: ${text}`)
            }
          }
        })
    )

    it.effect("another organization's id in a query or body gets the same answer as an unknown one", () =>
      Effect.gen(function* () {
        const theirs = yield* seedOneOfEach("referred to")
        const ours = yield* seedOneOfEach("referring")
        const { url } = yield* Countersign
        const caller: Caller = { base: url, headers: { authorization: `Bearer ${Redacted.value(ours.key)}` } }
        let tried = 0
        for (const operation of operations) {
          const request = yield* requestOf(operation.name, ours)
          const theirRequest = yield* requestOf(operation.name, theirs)
          const theirIds = namedIn(theirRequest, theirs)
          const ourIds = namedIn(request, ours)
          assert.strictEqual(theirIds.length, ourIds.length, operation.name)
          for (const [index, id] of ourIds.entries()) {
            const foreignId = theirIds[index] ?? assert.fail(operation.name)
            const unknown = unknownLike(id)
            const foreign = yield* ask(caller, operation, exchanged(request, id, foreignId))
            const absent = yield* ask(caller, operation, exchanged(request, id, unknown))
            const about = `${operation.name} with ${foreignId} for ${id}`
            assert.strictEqual(foreign.status, absent.status, `${about}: ${foreign.text} ${absent.text}`)
            assert.strictEqual(masked(foreign.text, [foreignId]), masked(absent.text, [unknown]), about)
            for (const secret of Object.values(theirs.ids)) {
              if (secret !== foreignId) assert.notInclude(foreign.text, secret, about)
            }
            tried++
          }
        }
        assert.isAbove(tried, 40)
      })
    )

    it.effect("another organization's resources appear on no list, for any cursor", () =>
      Effect.gen(function* () {
        const theirs = yield* seedOneOfEach("listed")
        const { key, url } = yield* Countersign
        const admin = yield* key({}, "listing")
        const caller: Caller = { base: url, headers: { authorization: `Bearer ${Redacted.value(admin)}` } }
        const lists = operations.filter(({ method, path }) => method === "GET" && !path.includes("/:"))
        assert.isAbove(lists.length, 8)
        for (const operation of lists) {
          const mine = yield* ask(caller, operation, {})
          assert.strictEqual(mine.status, 200, operation.name)
          const queries = [
            {},
            ...Object.values(theirs.ids).map((id) => ({
              // The highest possible id: every item sorts after it in a newest-first list.
              cursor: Buffer.from(id.replace(/_.*/, `_${"f".repeat(32)}`)).toString("base64url")
            })),
            ...Object.values(theirs.ids).map((id) => ({ cursor: Buffer.from(id).toString("base64url") }))
          ]
          for (const query of queries) {
            const { status, text } = yield* ask(caller, operation, { query })
            assert.include([200, 400], status, `${operation.name} ${JSON.stringify(query)}`)
            for (const id of Object.values(theirs.ids)) assert.notInclude(text, id, operation.name)
          }
        }
      })
    )
  }
)
