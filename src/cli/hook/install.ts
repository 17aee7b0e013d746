import { Console, Effect, Option } from "effect"
import { randomBytes } from "node:crypto"
import { chmod, chown, open, readFile, realpath, rename, rm, stat } from "node:fs/promises"
import { homedir } from "node:os"
import path from "node:path"
import { createInterface } from "node:readline/promises"
import { baseUrl } from "../../client/ClientOptions.ts"
import { diffLines } from "../../domain/tasks/diffLines.ts"
import type { HookVendor } from "../../domain/hooks/hookVendors.ts"
import { errnoCode } from "../../server/store/errnoCode.ts"
import { makeDirectories } from "../../server/store/makeDirectories.ts"
import { ProcessEnvironment } from "../environment.ts"
import { escapeInvisible } from "../escapeInvisible.ts"
import { FailedWithCode, TROUBLE } from "../exitCode.ts"
import { describeFileFailure } from "../fileFailure.ts"
import { describeUrlFault } from "../serviceFailure.ts"
import { DEFAULT_URL, DEFAULT_WAIT, parseWait } from "./hookOptions.ts"
import { type HookInstallation, UnknownSettings, withHooks, withoutHooks } from "./hookSettings.ts"

/** Where the hooks are written. */
interface Place {
  readonly agent: HookVendor
  readonly user: boolean
  readonly yes: boolean
}

interface InstallFlags extends Place {
  readonly http: boolean
  readonly defer: boolean
  readonly wait: Option.Option<string>
  readonly url: Option.Option<string>
  readonly program: string
}

/** Largest settings file. */
const MAX_FILE_BYTES = 4 * 2 ** 20

/** Lines around a change that are shown. */
const CONTEXT_LINES = 2

const trouble = (message: string) => new FailedWithCode({ exitCode: TROUBLE, cause: new Error(message) })

/** Works on a file, whose failure is described to the operator. */
const attempt = <A>(file: string, access: "read" | "write", run: () => Promise<A>) =>
  Effect.tryPromise({ try: run, catch: (error) => trouble(describeFileFailure(file, error, access)) })

/** The settings file, by the variables with which the coding agents move it. */
const settingsFile = Effect.fnUntraced(function* ({ agent, user }: Place) {
  const { machine, variables } = yield* ProcessEnvironment
  const home = variables["HOME"] || homedir()
  if (agent === "codex") {
    return user
      ? path.join(variables["CODEX_HOME"] || path.join(home, ".codex"), "hooks.json")
      : path.join(machine.cwd, ".codex", "hooks.json")
  }
  return user
    ? path.join(variables["CLAUDE_CONFIG_DIR"] || path.join(home, ".claude"), "settings.json")
    : path.join(machine.cwd, ".claude", "settings.json")
})

/** The contents of a file; undefined if it does not exist. */
const readText = (file: string) =>
  attempt(file, "read", async () => {
    try {
      const bytes = await readFile(file)
      if (bytes.byteLength > MAX_FILE_BYTES) throw new Error(`${file} is larger than ${MAX_FILE_BYTES} bytes`)
      return new TextDecoder("utf-8", { fatal: true }).decode(bytes)
    } catch (error) {
      if (errnoCode(error) === "ENOENT") return undefined
      throw error
    }
  })

/** Replaces a file at once, with the mode and the owner that it had. A symbolic link stays one. */
const replace = (file: string, before: string | undefined, text: string, mode: number) =>
  attempt(file, "write", async () => {
    await makeDirectories(path.dirname(file), 0o777)
    const target = before === undefined ? file : await realpath(file)
    const draft = `${target}.${randomBytes(6).toString("hex")}.tmp`
    try {
      const handle = await open(draft, "wx", 0o600)
      try {
        await handle.writeFile(text)
        if (before === undefined) await handle.chmod(mode)
        else {
          const existing = await stat(target)
          const own = await handle.stat()
          if (own.uid !== existing.uid || own.gid !== existing.gid)
            await chown(draft, existing.uid, existing.gid)
          await chmod(draft, existing.mode & 0o7777)
        }
        await handle.sync()
      } finally {
        await handle.close()
      }
      if (before !== undefined && (await readFile(target, "utf8")) !== before)
        throw new Error(`${file} was changed meanwhile; run the command again`)
      await rename(draft, target)
    } catch (error) {
      await rm(draft, { force: true })
      throw error
    }
  })

/** The change as a difference by lines. */
const describeDifference = (before: string, after: string): string => {
  const changes = diffLines(before, after)
  return changes
    .flatMap(({ op, text }, index) => {
      const lines = text.replace(/\n$/u, "").split("\n")
      if (op !== "same") return lines.map((line) => `${op === "added" ? "+" : "-"} ${line}`)
      const head = index === 0 ? [] : lines.slice(0, CONTEXT_LINES)
      const tail =
        index === changes.length - 1 ? [] : lines.slice(Math.max(head.length, lines.length - CONTEXT_LINES))
      const isCut = head.length + tail.length < lines.length
      return [...head, ...(isCut ? ["…"] : []), ...tail].map((line) => (line === "…" ? line : `  ${line}`))
    })
    .map(escapeInvisible)
    .join("\n")
}

/** Asks on the terminal. Without one, nothing is written. */
const confirm = (question: string) =>
  Effect.gen(function* () {
    if (!process.stdin.isTTY || !process.stderr.isTTY)
      return yield* trouble("this is not a terminal, so nobody can confirm the change: use --yes")
    return yield* Effect.promise(async () => {
      const terminal = createInterface({ input: process.stdin, output: process.stderr })
      try {
        return /^y(es)?$/iu.test((await terminal.question(`${question} [y/N] `)).trim())
      } finally {
        terminal.close()
      }
    })
  })

/** Shows the change of the settings file, asks, and writes it. */
const changeSettings = Effect.fnUntraced(function* (
  place: Place,
  edit: (text: string | undefined) => string | undefined
) {
  const file = yield* settingsFile(place)
  const before = yield* readText(file)
  const after = yield* Effect.try({
    try: () => edit(before),
    catch: (error) =>
      trouble(
        error instanceof UnknownSettings
          ? `${file} was not changed, because ${error.message}`
          : error instanceof Error
            ? error.message
            : String(error)
      )
  })
  if (after === undefined || after === before) {
    yield* Console.error(`${file}: nothing to change`)
    return false
  }
  yield* Console.log(`${file}\n${describeDifference(before ?? "", after)}`)
  if (!place.yes && !(yield* confirm(`Write ${file}?`))) {
    yield* Console.error("not written")
    return false
  }
  yield* replace(file, before, after, place.user ? 0o600 : 0o644)
  yield* Console.error(`written: ${file}`)
  return true
})

/** `countersign hook install` */
export const installHooks = Effect.fnUntraced(function* (flags: InstallFlags) {
  const { agent, defer, http, program } = flags
  const text = Option.getOrElse(flags.wait, () => DEFAULT_WAIT)
  const millis = parseWait(text)
  if (millis === undefined) return yield* trouble("--wait must be a time such as 90s, 9m or 2h, at most 24h")
  if (agent === "codex" && (defer || http))
    return yield* trouble("--defer and --http are for Claude Code: Codex has neither")
  if (http && (defer || Option.isSome(flags.wait)))
    return yield* trouble(
      "--wait and --defer are for the command: with --http, the service decides how long it waits"
    )
  const given = Option.getOrUndefined(flags.url)
  const fault = given === undefined ? undefined : describeUrlFault(given, "--url")
  if (fault !== undefined) return yield* trouble(fault)
  const url = given === undefined ? (http ? DEFAULT_URL : undefined) : baseUrl(given)
  const installation: HookInstallation = { vendor: agent, url, http, wait: { text, millis }, defer, program }
  const isWritten = yield* changeSettings(flags, (before) => withHooks(before, installation))
  if (!isWritten) return
  yield* Console.error("The hooks read the API key from COUNTERSIGN_KEY. Use a key of the preset hook.")
  if (agent === "codex")
    yield* Console.error("Codex runs a new hook only after you have trusted it: enter /hooks in Codex.")
})

/** `countersign hook uninstall` */
export const uninstallHooks = Effect.fnUntraced(function* (place: Place) {
  yield* changeSettings(place, (before) => (before === undefined ? undefined : withoutHooks(before)))
})
