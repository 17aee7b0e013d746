import { assert, describe, it } from "@effect/vitest"
import { Cause } from "effect"
import { CliError } from "effect/cli"
import { HttpServerError } from "effect/http"
import { chownSync, mkdtempSync, rmdirSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { permissionAdvice } from "../../src/server/store/EmbeddedPostgres/EmbeddedPostgresFailed.ts"
import { isDefect, errorMessage } from "../../src/cli/errorMessage.ts"
import { NotFound } from "../../src/api/Problems.ts"
import { SettingsInvalid } from "../../src/server/config/Settings.ts"

const addressInUse = Object.assign(new Error("listen EADDRINUSE: address already in use 127.0.0.1:8080"), {
  code: "EADDRINUSE"
})

const isRoot = process.getuid?.() === 0
if (!isRoot) process.stderr.write("A test of permissions is skipped: it needs root, to change owners\n")

describe("errorMessage", () => {
  it("returns a failure's own message on one line", () => {
    assert.strictEqual(
      errorMessage(Cause.fail(new SettingsInvalid({ variable: "PORT", message: "PORT must be a port" }))),
      "PORT must be a port"
    )
    assert.strictEqual(errorMessage(Cause.fail(new NotFound({ detail: "No such key" }))), "No such key")
    assert.strictEqual(errorMessage(Cause.die(new Error("two\n  lines"))), "two lines")
    assert.strictEqual(errorMessage(Cause.fail("a word")), "a word")
  })

  it("names the variables behind a failed system call", () => {
    const cause = Cause.fail(new HttpServerError.ServeError({ cause: addressInUse }))
    assert.match(errorMessage(cause) ?? "", /^the address of HOST and PORT is already in use/)
  })

  it("tells a port from a directory", () => {
    const refused = (syscall: string, more: object) =>
      errorMessage(
        Cause.die(
          Object.assign(new Error(`EACCES: permission denied, ${syscall}`), {
            code: "EACCES",
            syscall,
            ...more
          })
        )
      )
    assert.match(
      refused("listen", { address: "0.0.0.0", port: 80 }) ?? "",
      /may not listen on PORT.*PORT from 1024 on/
    )
    for (const syscall of ["mkdir", "stat", "open"]) {
      const message = refused(syscall, { path: "/app/.countersign" }) ?? ""
      assert.include(message, `permission denied for /app/.countersign (${syscall})`)
      assert.include(message, "COUNTERSIGN_DATA_DIR")
      assert.include(message, "DATABASE_URL")
      assert.notInclude(message, "PORT")
    }
  })

  it.skipIf(!isRoot)("names the account of a directory instead of asking for access to it", () => {
    const directory = mkdtempSync(path.join(tmpdir(), "permission-"))
    try {
      chownSync(directory, 4711, 4711)
      assert.strictEqual(
        permissionAdvice(path.join(directory, "postgres", "PG_VERSION"), 65_534),
        "run this as root or as the service's account (uid 4711), not as uid 65534"
      )
      assert.strictEqual(permissionAdvice(directory, 4711), "give this account (uid 4711) access")
    } finally {
      rmdirSync(directory)
    }
  })

  it("returns nothing if the command line already printed the error", () => {
    assert.strictEqual(
      errorMessage(Cause.fail(new CliError.ShowHelp({ commandPath: ["countersign"], errors: [] }))),
      undefined
    )
  })
})

describe("isDefect", () => {
  it("distinguishes defects from failures", () => {
    assert.isTrue(isDefect(Cause.die(new TypeError("x is not a function"))))
    assert.isFalse(isDefect(Cause.fail(new NotFound({ detail: "No such key" }))))
    assert.isFalse(isDefect(Cause.die(addressInUse)))
  })
})
