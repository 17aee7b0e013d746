/**
 * Both clients against the real service, over every operation: they send the same request, and read the same result from the response. The
 * promise client talks to the service through a recording proxy; the Effect client, which is derived from the contract, is then given the
 * recorded response.
 */
import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Layer, Redacted, Schema, SchemaAST, Stream } from "effect"
import { HttpBody, HttpClient, type HttpClientRequest, HttpClientResponse } from "effect/http"
import type { HttpApiEndpoint } from "effect/http-api"
import { createServer } from "node:http"
import { Api } from "../../src/api/Api.ts"
import { Client } from "../../src/client/Client.ts"
import { connect, type CountersignClient, isProblem } from "../../src/client/index.ts"
import { Countersign } from "../../src/testing/index.ts"
import { listenOnFreePort } from "../support/listenOnFreePort.ts"
import { operations, type Request, targetOf } from "../support/seedOneOfEach/operations.ts"
import { requests } from "../support/seedOneOfEach/requests.ts"
import {
  type SeededOrganization,
  seedEnvironment,
  seedOneOfEach
} from "../support/seedOneOfEach/seedOneOfEach.ts"
import { service } from "../support/service.ts"

/** A request and its response, as they were on the wire. */
interface Exchange {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, unknown>>
  readonly body: string
  readonly response: Response
}

/** A proxy in front of the service that keeps the last exchange. */
const recordingProxy = (target: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const exchanges: Array<Exchange> = []
      const server = createServer(async (incoming, outgoing) => {
        const chunks: Array<Buffer> = []
        for await (const chunk of incoming) chunks.push(chunk)
        const { headers, method = "", url = "" } = incoming
        const body = Buffer.concat(chunks).toString()
        const { host: _host, connection: _connection, "content-length": _length, ...rest } = headers
        const response = await fetch(target + url, {
          method,
          // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- no header of these requests is repeated
          headers: rest as Record<string, string>,
          ...(body === "" ? {} : { body })
        })
        const bytes = Buffer.from(await response.arrayBuffer())
        const type = response.headers.get("content-type")
        const init = { status: response.status, headers: type === null ? {} : { "content-type": type } }
        const copy = new Response(response.status === 204 ? null : bytes, init)
        exchanges.push({ method, url, headers, body, response: copy })
        outgoing.writeHead(response.status, type === null ? {} : { "content-type": type })
        outgoing.end(bytes)
      })
      const port = await listenOnFreePort(server)
      return { server, url: `http://127.0.0.1:${port}`, exchanges }
    }),
    ({ server }) =>
      Effect.promise(async () => {
        server.closeAllConnections()
        await new Promise((done) => server.close(done))
      })
  )

/** Calls an operation of either client by its name. */
const method = (client: object, name: string): ((input: object) => unknown) => {
  const [group = "", operation = ""] = name.split(".")
  return Reflect.get(Reflect.get(client, group), operation)
}

const endpoints: ReadonlyMap<string, HttpApiEndpoint.Top> = new Map(
  Object.values(Api.groups).flatMap((group) =>
    Object.values<HttpApiEndpoint.Top>(group.endpoints).map((endpoint): [string, HttpApiEndpoint.Top] => [
      `${group.identifier}.${endpoint.identifier}`,
      endpoint
    ])
  )
)

/** The input of the Effect client for a request on the wire: ids are branded, times `DateTime`. */
const typedInput = (name: string, { body, params, query }: Request): object => {
  const endpoint = endpoints.get(name)
  assert.isDefined(endpoint)
  const read = (schema: Schema.Top | undefined, value: unknown): unknown =>
    schema === undefined || value === undefined
      ? value
      : // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the contract's schemas need no services
        Schema.decodeUnknownSync(schema as Schema.Codec<unknown>)(value)
  const [payload] = [...endpoint.payload.values()].flatMap(({ schemas }) => schemas)
  return {
    ...(params === undefined ? {} : { params: read(endpoint.params, params) }),
    ...(query === undefined ? {} : { query: read(endpoint.query, query) }),
    ...(body === undefined ? {} : { payload: read(payload, body) })
  }
}

/** A value of the Effect client as the promise client returns it: times are `Date`, cursors as they are on the wire. */
const plain = (value: unknown, wire: unknown): unknown => {
  if (DateTime.isDateTime(value)) return DateTime.toDateUtc(value)
  if (Array.isArray(value)) return value.map((item, index) => plain(item, Reflect.get(Object(wire), index)))
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => {
      const raw: unknown = Reflect.get(Object(wire), name)
      return [name, name === "next_cursor" ? raw : plain(member, raw)]
    })
  )
}

const collect = async (lines: AsyncIterable<unknown>) => {
  const all: Array<unknown> = []
  for await (const line of lines) all.push(line)
  return all
}

const isIterable = (value: unknown): value is AsyncIterable<unknown> =>
  typeof value === "object" && value !== null && Symbol.asyncIterator in value

/** The Effect client, on a recorded response; runs an operation and returns its outcome and the request that it sent. */
const makeReplay = Effect.gen(function* () {
  const recorded: { exchange?: Exchange } = {}
  const sent: Array<{ readonly url: string; readonly request: HttpClientRequest.HttpClientRequest }> = []
  const http = HttpClient.make((request, url) => {
    sent.push({ url: url.href, request })
    assert.isDefined(recorded.exchange)
    return Effect.succeed(HttpClientResponse.fromWeb(request, recorded.exchange.response.clone()))
  })
  const options = { url: "http://service", key: "csk_key", retries: 0 }
  const client = yield* Effect.provide(
    Client,
    Client.layerHttp(options).pipe(Layer.provide(Layer.succeed(HttpClient.HttpClient, http)))
  )
  return Effect.fnUntraced(function* (name: string, input: object, exchange: Exchange) {
    recorded.exchange = exchange
    sent.length = 0
    const outcome = yield* Effect.result(
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- every operation of the client is such an effect
      (method(client, name)(input) as Effect.Effect<unknown, object>).pipe(
        Effect.flatMap((value) =>
          Stream.isStream(value)
            ? // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- its lines need no services
              Effect.orDie(Stream.runCollect(value as Stream.Stream<unknown, unknown>))
            : Effect.succeed(value)
        )
      )
    )
    const [first] = sent
    assert.isDefined(first)
    return { outcome, ...first }
  })
})

type Replay = Effect.Success<typeof makeReplay>

const bodyOf = (request: HttpClientRequest.HttpClientRequest): unknown =>
  HttpBody.isHttpBody(request.body) && request.body._tag === "Uint8Array"
    ? JSON.parse(new TextDecoder().decode(request.body.body))
    : undefined

/** Calls an operation by the promise client, replays the exchange to the Effect client, and compares requests and outcomes. */
const compare = (
  name: string,
  request: Request,
  client: CountersignClient,
  exchanges: ReadonlyArray<Exchange>,
  replay: Replay
) =>
  Effect.gen(function* () {
    const { body, params, query } = request
    const before = exchanges.length
    const [result, error] = yield* Effect.promise(async () => {
      try {
        const value = await method(
          client,
          name
        )({
          ...(params === undefined ? {} : { params }),
          ...(query === undefined ? {} : { query }),
          ...(body === undefined ? {} : { payload: body })
        })
        return [isIterable(value) ? await collect(value) : value, undefined] as const
      } catch (error) {
        return [undefined, error] as const
      }
    })
    const exchange = exchanges.at(-1)
    assert.isDefined(exchange)
    assert.lengthOf(exchanges, before + 1, `${name}: ${String(error)}`)
    const replayed = yield* replay(name, typedInput(name, request), exchange)

    assert.strictEqual(exchange.method, replayed.request.method, name)
    assert.strictEqual(`http://service${exchange.url}`, replayed.url, name)
    assert.deepStrictEqual(
      exchange.body === "" ? undefined : JSON.parse(exchange.body),
      bodyOf(replayed.request)
    )
    for (const header of ["idempotency-key", "content-type", "authorization"]) {
      const isSent = [exchange.headers[header], replayed.request.headers[header]].map(
        (value) => value !== undefined
      )
      assert.strictEqual(isSent[0], isSent[1], `${name} ${header}`)
    }

    const text = yield* Effect.promise(() => exchange.response.clone().text())
    if (replayed.outcome._tag === "Success") {
      assert.isUndefined(error, name)
      const isLines =
        name.startsWith("datasets.export") || name === "auditLog.export" || name === "approvalRules.test"
      const wire: unknown = isLines || text === "" ? undefined : JSON.parse(text)
      assert.deepStrictEqual(result, plain(replayed.outcome.success, wire), name)
    } else {
      assert.instanceOf(error, Error)
      const { operation, ...others } = Object.fromEntries(Object.entries(error))
      assert.strictEqual(operation, name)
      assert.deepStrictEqual(
        others,
        plain(Object.fromEntries(Object.entries(replayed.outcome.failure)), JSON.parse(text))
      )
    }
    return error
  })

/** Each test calls every operation, up to three times and by two clients. */
const TIMEOUT_MILLIS = 120_000

/** The operations whose body may be left out, each with a successful request to call it three times, and the result that the body decides. */
const withOptionalBody: Readonly<
  Record<
    string,
    {
      readonly params: (ids: SeededOrganization["ids"]) => ReadonlyArray<Readonly<Record<string, string>>>
      readonly result: ReadonlyArray<string>
    }
  >
> = {
  "feedback.createToken": {
    params: ({ trace }) => [{ id: trace }, { id: trace }, { id: trace }],
    result: ["inference_log_id", "url", "max_uses", "end_user"]
  },
  "feedback.reject": {
    params: ({ feedback_to_reject, feedback_to_stage, feedback_to_unstage }) => [
      { id: feedback_to_reject },
      { id: feedback_to_stage },
      { id: feedback_to_unstage }
    ],
    result: ["inference_log_id", "status", "review_note"]
  }
}

const json = operations.filter(({ name }) => name !== "sessions.stream")

layer(service({ environment: seedEnvironment }), { excludeTestServices: true })("Both clients", (it) => {
  it.effect(
    "send the same request and read the same result, for every operation",
    () =>
      Effect.gen(function* () {
        const { url } = yield* Countersign
        const seeded = yield* seedOneOfEach("contract")
        const proxy = yield* recordingProxy(url)
        const client = connect({ url: proxy.url, key: Redacted.value(seeded.key), retries: 0 })
        const replay = yield* makeReplay
        for (const name of Object.keys(requests)) {
          if (name === "sessions.stream") continue
          const made = requests[name]?.(seeded) ?? {}
          const request = Effect.isEffect(made) ? yield* made : made
          const error = yield* compare(name, request, client, proxy.exchanges, replay)
          // The seeded collector rejects spans, the seeded endpoint has no receiver, and there is no mail server.
          if (name === "telemetryDestinations.test") assert.isTrue(isProblem(error, "EXPORT_FAILED"))
          else if (name === "notificationEndpoints.verify")
            assert.isTrue(isProblem(error, "VERIFICATION_FAILED"))
          else if (name === "apiKeys.verifyEmail") assert.isTrue(isProblem(error, "EMAIL_NOT_VERIFIABLE"))
          else assert.isUndefined(error, name)
        }
        assert.deepStrictEqual(
          Object.keys(requests).toSorted(),
          operations.map(({ name }) => name).toSorted()
        )
      }).pipe(Effect.scoped),
    TIMEOUT_MILLIS
  )

  it.effect(
    "send {} for a body that is left out, which the service treats like no body",
    () =>
      Effect.gen(function* () {
        const { url } = yield* Countersign
        const seeded = yield* seedOneOfEach("optional bodies")
        const proxy = yield* recordingProxy(url)
        const client = connect({ url: proxy.url, key: Redacted.value(seeded.key), retries: 0 })
        const replay = yield* makeReplay
        const mayLackBody = ({ payload }: HttpApiEndpoint.Top) =>
          [...payload.values()].some(({ schemas }) => schemas.some(({ ast }) => SchemaAST.isVoid(ast)))
        assert.sameMembers(
          [...endpoints].filter(([, endpoint]) => mayLackBody(endpoint)).map(([name]) => name),
          Object.keys(withOptionalBody)
        )
        for (const [name, { params: paramsOf, result }] of Object.entries(withOptionalBody)) {
          const operation = operations.find((one) => one.name === name)
          assert.isDefined(operation)
          const [byClients, ...bySender] = paramsOf(seeded.ids)
          const request: Request = byClients === undefined ? {} : { params: byClients }
          assert.isUndefined(yield* compare(name, request, client, proxy.exchanges, replay), name)
          const exchange = proxy.exchanges.at(-1)
          assert.isDefined(exchange)
          assert.strictEqual(exchange.body, "{}", name)
          const undefinedBody = { ...typedInput(name, request), payload: undefined }
          assert.deepStrictEqual(bodyOf((yield* replay(name, undefinedBody, exchange)).request), {}, name)

          const outcomeOf = async (response: Response) => {
            const body: unknown = await response.json()
            return [response.status, ...result.map((member): unknown => Reflect.get(Object(body), member))]
          }
          const expected = yield* Effect.promise(() => outcomeOf(exchange.response.clone()))
          assert.notInclude(expected, undefined, name)
          for (const [index, params] of bySender.entries()) {
            const type = index === 0 ? {} : { "content-type": "application/json" }
            const response = yield* Effect.promise(() =>
              fetch(url + targetOf(operation, { params }), {
                method: operation.method,
                headers: { authorization: `Bearer ${Redacted.value(seeded.key)}`, ...type }
              })
            )
            assert.deepStrictEqual(yield* Effect.promise(() => outcomeOf(response)), expected, name)
          }
        }
      }).pipe(Effect.scoped),
    TIMEOUT_MILLIS
  )

  it.effect(
    "reject with the same problem, for every operation",
    () =>
      Effect.gen(function* () {
        const countersign = yield* Countersign
        const proxy = yield* recordingProxy(countersign.url)
        const seeded = yield* seedOneOfEach("problems")
        const blind = yield* countersign.key({ scopes: ["org_config.write"] }, "problems")
        const keys = [Redacted.make("csk_nobody"), blind, yield* countersign.key({}, "elsewhere")]
        const seen = new Set<unknown>()
        const replay = yield* makeReplay
        for (const key of keys) {
          const client = connect({ url: proxy.url, key: Redacted.value(key), retries: 0 })
          for (const { name } of json) {
            const made = requests[name]?.(seeded) ?? {}
            const request = Effect.isEffect(made) ? yield* made : made
            // Another organization's lists are empty, and its creations succeed.
            const error = yield* compare(name, request, client, proxy.exchanges, replay)
            if (error instanceof Error) seen.add(Reflect.get(error, "code"))
          }
        }
        assert.includeMembers([...seen], ["INVALID_API_KEY", "INSUFFICIENT_SCOPE", "NOT_FOUND"])
      }).pipe(Effect.scoped),
    TIMEOUT_MILLIS
  )
})
