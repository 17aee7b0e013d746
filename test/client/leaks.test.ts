import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { existsSync, mkdtempSync, realpathSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { inspect } from "node:util"
import { build } from "esbuild"
import { afterAll, beforeAll } from "vitest"
import { Client, connect } from "../../src/client/index.ts"
import { closedPort } from "../support/closedPort.ts"
import { type ScriptedReply, startScriptedServer } from "../support/scripted.ts"

const key = "csk_a_key_that_must_not_be_printed"

/** A URL at which nothing listens. */
const closedUrl = Effect.map(closedPort, (port) => `http://127.0.0.1:${port}`)

/** The ways in which a call can fail: its server, and the code of its error. */
const failures: Readonly<
  Record<string, { readonly answer: ScriptedReply | "nobody"; readonly code: string }>
> = {
  "nothing listens": { answer: "nobody", code: "SERVICE_UNREACHABLE" },
  "the connection breaks": { answer: "hang up", code: "SERVICE_UNREACHABLE" },
  "a proxy answers 404": {
    answer: { status: 404, headers: { "content-type": "text/html" }, body: "Not here" },
    code: "UNEXPECTED_RESPONSE"
  },
  "a proxy redirects": {
    answer: { status: 302, headers: { location: "/login" } },
    code: "UNEXPECTED_RESPONSE"
  },
  "another service answers": {
    answer: { status: 200, body: { hello: "world" } },
    code: "UNEXPECTED_RESPONSE"
  },
  "the body is not JSON": {
    answer: { status: 200, headers: { "content-type": "application/json" }, body: undefined },
    code: "UNEXPECTED_RESPONSE"
  },
  "the service has a problem": {
    answer: {
      status: 401,
      body: {
        type: "urn:problem-type:countersign:INVALID_API_KEY",
        title: "Invalid API key",
        status: 401,
        code: "INVALID_API_KEY",
        request_id: "req_1"
      }
    },
    code: "INVALID_API_KEY"
  }
}

/** Calls that fail, of both clients. */
const calls: Readonly<Record<string, (url: string) => Promise<unknown>>> = {
  connect: (url) => connect({ url, key, retries: 0 }).sessions.list(),
  "connect's stream": (url) =>
    connect({ url, key, retries: 0 }).stream("not a session")[Symbol.asyncIterator]().next(),
  "connect's govern with invalid input": (url) =>
    connect({ url, key, retries: 0 }).govern("not a session", { step_id: "1", tool: "t", action_class: "c" }),
  Client: (url) =>
    Effect.runPromise(
      Effect.flatMap(Client, ({ sessions }) => sessions.list()).pipe(
        Effect.provide(Client.layer({ url, key, retries: 0 }))
      )
    )
}

const rejection = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => assert.fail("the call was answered"),
    (error: unknown) => error
  )

const printed = (error: unknown): ReadonlyArray<string> => [
  inspect(error, { customInspect: false, showHidden: true, depth: Infinity }),
  inspect(error, { showHidden: true, depth: Infinity }),
  inspect(error),
  String(error),
  JSON.stringify(error),
  inspect(structuredClone(error), { showHidden: true, depth: Infinity })
]

describe("an error of the client", () => {
  for (const [what, { answer, code }] of Object.entries(failures)) {
    it.live(`holds neither the request nor the key, if ${what}`, () =>
      Effect.scoped(
        Effect.gen(function* () {
          const server = yield* startScriptedServer([answer === "nobody" ? "never" : answer])
          const url = answer === "nobody" ? yield* closedUrl : server.url
          for (const [name, call] of Object.entries(calls)) {
            const error = yield* Effect.promise(() => rejection(call(url)))
            for (const text of printed(error)) {
              assert.notInclude(text, key, name)
              assert.notMatch(text, /authorization|Bearer/i, name)
            }
            assert.instanceOf(error, Error)
            assert.match(inspect(error), /\n {4}at .*\n/, name)
            if (name === "connect" || name === "Client") assert.include(inspect(error), code, name)
          }
        })
      )
    )
  }

  it("does not quote a key that cannot be sent", () => {
    for (const bad of [`${key}\n`, `${key} `, `${key}\u{1f511}`]) {
      let error: unknown
      try {
        connect({ url: "http://127.0.0.1:8080", key: bad })
      } catch (thrown) {
        error = thrown
      }
      assert.include(String(error), "key must not contain")
      for (const text of printed(error)) assert.notInclude(text, key)
    }
  })
})

/** Every Node.js of this machine: the one that runs the tests, and the one on the path. */
const nodes = [
  process.execPath,
  ...(process.env["PATH"] ?? "")
    .split(path.delimiter)
    .map((folder) => path.join(folder, "node"))
    .filter((file) => existsSync(file))
].map((file) => realpathSync(file))

/** Programs that call a service at `URL` and catch nothing. */
const programs = {
  connect: `import { connect } from "./src/client/index.ts"
    const { KEY: key, URL: url } = process.env
    await connect({ url, key, retries: 0 }).sessions.create()`,
  Client: `import { Effect } from "effect"
    import { Client } from "./src/client/index.ts"
    const { KEY: key, URL: url } = process.env
    await Effect.flatMap(Client, ({ sessions }) => sessions.create()).pipe(
      Effect.provide(Client.layer({ url, key, retries: 0 })),
      Effect.runPromise
    )`
}

/** A program with more calls at once than an `AbortSignal` may have listeners under Node 20. */
const concurrent = `import { connect } from "./src/client/index.ts"
  const { KEY: key, URL: url } = process.env
  const client = connect({ url, key, retries: 0 })
  const results = await Promise.allSettled(Array.from({ length: 20 }, () => client.sessions.create()))
  console.log(results.filter(({ reason }) => reason.code === "SERVICE_UNREACHABLE").length)`

describe("a program that a client's error ends", () => {
  const directory = mkdtempSync(path.join(tmpdir(), "countersign-leaks-"))
  afterAll(() => rmSync(directory, { recursive: true, force: true }))

  beforeAll(async () => {
    for (const [name, contents] of Object.entries({ ...programs, concurrent })) {
      await build({
        stdin: { contents, resolveDir: fileURLToPath(new URL("../..", import.meta.url)) },
        outfile: path.join(directory, `${name}.mjs`),
        bundle: true,
        format: "esm",
        platform: "node",
        target: "node18"
      })
    }
  })

  const run = (node: string, name: string, url: string) =>
    new Promise<string>((resolve) => {
      const child = spawn(node, [path.join(directory, `${name}.mjs`)], { env: { KEY: key, URL: url } })
      let output = ""
      for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk))
      child.on("close", (code) => resolve(`${output}\nexit ${code}`))
    })

  for (const node of new Set(nodes)) {
    it.live(
      `prints what happened and not the key, under ${node}`,
      () =>
        Effect.scoped(
          Effect.gen(function* () {
            const url = yield* closedUrl
            for (const name of Object.keys(programs)) {
              const output = yield* Effect.promise(() => run(node, name, url))
              assert.notInclude(output, key)
              assert.notMatch(output, /authorization|Bearer/i)
              assert.include(output, "ServiceUnreachable: Cannot reach the service at")
              assert.include(output, "connection refused (POST /v1/agent-sessions)")
              assert.include(output, "reason: 'ECONNREFUSED'")
              assert.match(output, /exit 1$/)
            }
          })
        ),
      120_000
    )

    it.live(
      `gets no warning for many calls at once, under ${node}`,
      () =>
        Effect.scoped(
          Effect.gen(function* () {
            const url = yield* closedUrl
            assert.strictEqual(yield* Effect.promise(() => run(node, "concurrent", url)), "20\n\nexit 0")
          })
        ),
      120_000
    )
  }
})
