import { assert, describe, it } from "@effect/vitest"
import { Effect, type Scope } from "effect"
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import path from "node:path"
import { describeFileFailure } from "../../src/cli/fileFailure.ts"
import {
  describeFetchFailure,
  describeServiceFailure,
  describeUrlFault
} from "../../src/cli/serviceFailure.ts"
import { ServiceUnreachable } from "../../src/client/ServiceUnreachable.ts"
import { UnexpectedResponse } from "../../src/client/UnexpectedResponse.ts"
import { cliWithCode } from "../support/cli.ts"
import { closedPort } from "../support/closedPort.ts"
import { listenOnFreePort } from "../support/listenOnFreePort.ts"
import { spawnCli } from "../support/process.ts"

const variables = { COUNTERSIGN_KEY: "csk_test" }
const task = `tsk_${"0".repeat(12)}7${"0".repeat(3)}8${"0".repeat(15)}`

/** A directory with a text file, a file that is not text, and a directory. */
const folder = Effect.acquireRelease(
  Effect.sync(() => {
    const made = mkdtempSync(path.join(tmpdir(), "countersign-failures-"))
    writeFileSync(path.join(made, "rules.json"), `{"rules":[]}`)
    writeFileSync(path.join(made, "runs.jsonl"), `{"id":"a","input":{},"answer":{}}\n`)
    writeFileSync(path.join(made, "binary.jsonl"), Buffer.from([0xff, 0xfe, 0x0a]))
    mkdirSync(path.join(made, "directory.yaml"))
    return made
  }),
  (made) => Effect.sync(() => rmSync(made, { recursive: true }))
)

/** The origin of a port at which nothing listens. */
const closedOrigin: Effect.Effect<string, never, Scope.Scope> = Effect.map(
  closedPort,
  (port) => `http://127.0.0.1:${port}`
)

describe("the URL of a service", () => {
  it.live(
    "that is invalid is named by every command in one sentence",
    () =>
      Effect.gen(function* () {
        const directory = yield* folder
        const rules = path.join(directory, "rules.json")
        const commands = [
          ["runs", "import", "--task", task, path.join(directory, "runs.jsonl")],
          ["rules", "pull"],
          ["rules", "diff", rules],
          ["rules", "test", rules],
          ["rules", "apply", rules],
          ["rules", "shadow", "remove"],
          ["demo"],
          ["mcp"],
          ["hook", "install", "claude-code", "--yes"]
        ]
        for (const command of commands) {
          for (const [url, expected] of [
            ["bogus", "--url must be an http or https URL, such as http://127.0.0.1:8080."],
            [
              "http://ann:hunter2@localhost:1",
              "--url must not contain credentials: remove the part of it before localhost:1."
            ]
          ] as const) {
            const { err } = yield* cliWithCode([...command, "--url", url], {
              ...variables,
              COUNTERSIGN_ADMIN_KEY: "csk_test"
            })
            assert.strictEqual(err, expected, command.join(" "))
          }
        }
        const gate = yield* cliWithCode(["mcp-gate", "--service", "bogus", "--", "true"], variables)
        assert.strictEqual(gate.err, "--service must be an http or https URL, such as http://127.0.0.1:8080.")
        const byVariable = yield* cliWithCode(["mcp"], { ...variables, COUNTERSIGN_URL: "bogus" })
        assert.match(byVariable.err, /^COUNTERSIGN_URL must be an http or https URL/)
      }).pipe(Effect.scoped),
    60_000
  )

  it.live("that is invalid fails a process without a stack", () =>
    Effect.gen(function* () {
      const { code, err } = yield* (yield* spawnCli(["rules", "pull", "--url", "bogus"], variables)).ended
      assert.strictEqual(
        err,
        "countersign: --url must be an http or https URL, such as http://127.0.0.1:8080.\n"
      )
      assert.strictEqual(code, 2)
      const hook = yield* (yield* spawnCli(["hook", "codex", "--url", "bogus"], variables)).ended
      assert.strictEqual(
        hook.err,
        "countersign hook: --url must be an http or https URL, such as http://127.0.0.1:8080.\n"
      )
      assert.strictEqual(hook.code, 2)
    }).pipe(Effect.scoped)
  )

  it("has no credentials, query or fragment, and its fault does not quote it", () => {
    assert.isUndefined(describeUrlFault("https://approve.example/countersign", "--url"))
    for (const text of [
      "ann:hunter2@x",
      "ftp://ann:hunter2@x",
      "http://ann:hunter2@x",
      "http://x?key=hunter2",
      "http://x#hunter2"
    ])
      assert.notInclude(describeUrlFault(text, "--url") ?? "hunter2", "hunter2", text)
  })

  it.live("at which nothing listens is named with what to do", () =>
    Effect.gen(function* () {
      const origin = yield* closedOrigin
      const sentence = `Nothing listens at ${origin}: start the service there or set --url.`
      assert.strictEqual((yield* cliWithCode(["rules", "pull", "--url", origin], variables)).err, sentence)
      const demo = yield* cliWithCode(["demo", "--url", origin], { COUNTERSIGN_ADMIN_KEY: "csk_test" })
      assert.include(demo.err, `creating the key of the demo agent failed: ${sentence}`)
      assert.notInclude(demo.err, "SERVICE_UNREACHABLE")
    }).pipe(Effect.scoped)
  )

  it("is named in the sentence for each reason, without the codes of Node and OpenSSL", () => {
    const url = new URL("https://approve.example/v1/approvals")
    const request = { operation: "approvals.list", method: "GET", url }
    for (const [reason, expected] of [
      ["ENOTFOUND", /is not in DNS: correct --url/],
      ["EAI_AGAIN", /DNS lookup .* failed/],
      ["ECONNRESET", /was closed before the response/],
      ["ENETUNREACH", /No network route/],
      ["UND_ERR_CONNECT_TIMEOUT", /timed out: check firewalls/],
      ["TIMEOUT", /did not respond in time/],
      ["DEPTH_ZERO_SELF_SIGNED_CERT", /is not trusted: set NODE_EXTRA_CA_CERTS/],
      ["CERT_HAS_EXPIRED", /has expired: renew it/],
      ["ERR_TLS_CERT_ALTNAME_INVALID", /is for another host/],
      ["ERR_SSL_WRONG_VERSION_NUMBER", /begin --url with http:\/\//],
      ["HPE_INVALID_CONSTANT", /begin --url with https:\/\//],
      ["UNKNOWN", /^No response from/]
    ] as const) {
      const sentence = describeServiceFailure(new ServiceUnreachable(request, reason)) ?? ""
      assert.match(sentence, expected)
      assert.include(sentence, "https://approve.example")
      assert.notInclude(sentence, reason)
    }
    assert.match(
      describeServiceFailure(new UnexpectedResponse(request, 404, "not of this API")) ?? "",
      /https:\/\/approve\.example gave a response that is not of Countersign's API \(status 404\)/
    )
    assert.isUndefined(describeServiceFailure(new Error("another")))
    const refused = new TypeError("fetch failed", {
      cause: Object.assign(new Error("x"), { code: "ECONNREFUSED" })
    })
    assert.match(
      describeFetchFailure(refused, url, "--url"),
      /^Nothing listens at https:\/\/approve\.example: /
    )
  })
})

describe("a file that a command cannot use", () => {
  it.live("is named in one sentence by every command that reads it without a database", () =>
    Effect.gen(function* () {
      const directory = yield* folder
      const origin = yield* closedOrigin
      const url = ["--url", origin]
      const missing = path.join(directory, "missing.yaml")
      const isDirectory = path.join(directory, "directory.yaml")
      const commands: ReadonlyArray<(file: string) => ReadonlyArray<string>> = [
        (file) => ["audit", "verify", file],
        (file) => ["audit", "verify", "--checkpoints", file, path.join(directory, "runs.jsonl")],
        (file) => ["runs", "import", ...url, "--task", task, file],
        (file) => ["rules", "diff", ...url, file],
        (file) => ["rules", "apply", ...url, file],
        (file) => ["rules", "pull", ...url, "--key-file", file],
        (file) => ["listen", "--secret-file", file],
        (file) => ["mcp", "--key-file", file],
        (file) => ["restore", "--from", directory, "--master-key", file]
      ]
      for (const command of commands) {
        const absent = yield* cliWithCode(command(missing), variables)
        assert.match(absent.err, /^\S+missing\.yaml does not exist: .+[a-z.]$/, command(missing).join(" "))
        const noFile = yield* cliWithCode(command(isDirectory), variables)
        assert.strictEqual(noFile.err, `${isDirectory} is a directory: give the path of a file.`)
      }
      const binary = yield* cliWithCode(["audit", "verify", path.join(directory, "binary.jsonl")])
      assert.match(binary.err, /binary\.jsonl is not UTF-8 text: /)
    }).pipe(Effect.scoped)
  )

  it("is described by what failed", () => {
    const failure = (code: string, access?: "read" | "write") =>
      describeFileFailure("/x/y", Object.assign(new Error(`${code}: raw, open '/x/y'`), { code }), access)
    assert.match(failure("EACCES"), /^Permission denied for \/x\/y: give this account .*read access/)
    assert.strictEqual(
      failure("ENOENT", "write"),
      "The directory /x does not exist: create it, or give another path."
    )
    for (const code of ["ENOTDIR", "EROFS", "ENOSPC", "ENAMETOOLONG", "ELOOP", "EMFILE", "EIO", "EEXIST"]) {
      assert.include(failure(code), "/x/y")
      assert.notInclude(failure(code), code)
    }
    assert.strictEqual(describeFileFailure("-", new Error("closed")), "closed")
  })
})

describe("other failures", () => {
  it.live("an MCP server that cannot be started is named without a stack", () =>
    Effect.gen(function* () {
      const directory = yield* folder
      const program = path.join(directory, "runs.jsonl")
      chmodSync(program, 0o600)
      for (const [command, expected] of [
        [
          "no-such-program",
          /^countersign: The command no-such-program does not exist: check its name and the variable PATH\.\n$/
        ],
        [program, /^countersign: The command \S+runs\.jsonl cannot be executed: .+\n$/]
      ] as const) {
        const gate = yield* spawnCli(
          ["mcp-gate", "--state", path.join(directory, "state"), "--", command],
          variables
        )
        const { code, err } = yield* gate.ended
        assert.match(err, expected)
        assert.strictEqual(code, 1)
      }
    }).pipe(Effect.scoped)
  )

  it.live("a port of the receiver that is in use is named with its flag", () =>
    Effect.gen(function* () {
      const server = createServer()
      const port = yield* Effect.acquireRelease(
        Effect.promise(() => listenOnFreePort(server)),
        () => Effect.sync(() => server.close())
      )
      const { err } = yield* cliWithCode(["listen", "--port", String(port)], {
        WEBHOOK_SECRET: "whsec_dGVzdA=="
      })
      assert.strictEqual(err, `Port ${port} is in use: set another --port, or stop the process that uses it.`)
    }).pipe(Effect.scoped)
  )
})

describe("a start failure", () => {
  const failed = (command: string, environment: Readonly<Record<string, string>>) =>
    Effect.flatMap(spawnCli([command], { PORT: "eighty", ...environment }), ({ ended }) => ended)

  it.live("is a line of the log if COUNTERSIGN_LOG_FORMAT is json, which no level hides", () =>
    Effect.gen(function* () {
      for (const command of ["serve", "migrate"]) {
        for (const level of ["info", "none"]) {
          const { code, err, out } = yield* failed(command, {
            COUNTERSIGN_LOG_FORMAT: "JSON",
            COUNTERSIGN_LOG_LEVEL: level
          })
          assert.strictEqual(code, 1)
          assert.strictEqual(out, "")
          const line: Record<string, unknown> = JSON.parse(err)
          assert.deepInclude(line, {
            level: "FATAL",
            message: 'PORT must be a whole number from 0 to 65535, not "eighty"',
            annotations: {}
          })
          assert.match(String(line["timestamp"]), /^\d{4}-\d\d-\d\dT/)
          assert.match(err, /^[^\n]+\n$/)
        }
      }
    }).pipe(Effect.scoped)
  )

  it.live("is a sentence for people in the other format, and of commands that are not services", () =>
    Effect.gen(function* () {
      const sentence = 'countersign: PORT must be a whole number from 0 to 65535, not "eighty"\n'
      assert.strictEqual((yield* failed("serve", { COUNTERSIGN_LOG_FORMAT: "pretty" })).err, sentence)
      const keys = yield* spawnCli(["keys", "list"], { PORT: "eighty", COUNTERSIGN_LOG_FORMAT: "json" })
      assert.strictEqual((yield* keys.ended).err, sentence)
    }).pipe(Effect.scoped)
  )
})
