import { Console, Effect, Option } from "effect"
import { spawnSync } from "node:child_process"
import { randomBytes } from "node:crypto"
import { chmod, chown, open, readFile, realpath, rename, rm, stat } from "node:fs/promises"
import { homedir } from "node:os"
import path from "node:path"
import { createInterface } from "node:readline/promises"
import { baseUrl } from "../../client/ClientOptions.ts"
import { diffLines } from "../../domain/tasks/diffLines.ts"
import type { HookVendor } from "../../domain/hooks/hookVendors.ts"
import type { Environment } from "../../server/config/Settings.ts"
import { errnoCode } from "../../server/store/errnoCode.ts"
import { makeDirectories } from "../../server/store/makeDirectories.ts"
import { ProcessEnvironment } from "../environment.ts"
import { escapeInvisible } from "../escapeInvisible.ts"
import { commandFailed, FailedWithCode } from "../exitCode.ts"
import { describeFileFailure } from "../fileFailure.ts"
import { describeUrlFault } from "../serviceFailure.ts"
import { describeClaudeVersion } from "./claudeVersion.ts"
import { askCodex, type CodexState, describeUngoverned } from "./codexHooks.ts"
import {
  GOVERNED_FEATURES,
  withFeatures,
  withManagedHooks,
  withoutManagedHooks,
  withTrust
} from "./codexToml.ts"
import { DEFAULT_URL, DEFAULT_WAIT, parseWait } from "./hookOptions.ts"
import {
  type HookInstallation,
  switchesOf,
  UnknownSettings,
  withHooks,
  withoutHooks
} from "./hookSettings.ts"

/** Where the hooks are written. */
interface Place {
  readonly agent: HookVendor
  readonly user: boolean
  readonly managed: boolean
  readonly yes: boolean
}

interface InstallFlags extends Place {
  readonly http: boolean
  readonly defer: boolean
  readonly trust: boolean
  readonly wait: Option.Option<string>
  readonly keyFile: Option.Option<string>
  readonly url: Option.Option<string>
  readonly program: string
}

/** Largest settings file. */
const MAX_FILE_BYTES = 4 * 2 ** 20

/** Lines around a change that are shown. */
const CONTEXT_LINES = 2

/** Works on a file, whose failure is described to the operator. */
const attempt = <A>(file: string, access: "read" | "write", run: () => Promise<A>) =>
  Effect.tryPromise({ try: run, catch: (error) => commandFailed(describeFileFailure(file, error, access)) })

/** The machine's settings, which its users cannot change. */
const managedFile = (agent: HookVendor, { ProgramData }: Environment): string => {
  const isWindows = process.platform === "win32"
  if (agent === "codex")
    return isWindows
      ? path.join(ProgramData || "C:\\ProgramData", "OpenAI", "Codex", "requirements.toml")
      : "/etc/codex/requirements.toml"
  if (isWindows) return "C:\\Program Files\\ClaudeCode\\managed-settings.json"
  return process.platform === "darwin"
    ? "/Library/Application Support/ClaudeCode/managed-settings.json"
    : "/etc/claude-code/managed-settings.json"
}

/** The settings file, by the variables with which the coding agents move it, and Codex' own beside it. */
const settingsFiles = Effect.fnUntraced(function* ({ agent, managed, user }: Place) {
  const { machine, variables } = yield* ProcessEnvironment
  const home = variables["HOME"] || homedir()
  if (managed && user) return yield* commandFailed("--managed and --user are two places")
  if (agent === "codex") {
    const own = variables["CODEX_HOME"] || path.join(home, ".codex")
    const directory = user ? own : path.join(machine.cwd, ".codex")
    return {
      file: managed ? managedFile(agent, variables) : path.join(directory, "hooks.json"),
      config: path.join(directory, "config.toml"),
      userConfig: path.join(own, "config.toml")
    }
  }
  const directory = user
    ? variables["CLAUDE_CONFIG_DIR"] || path.join(home, ".claude")
    : path.join(machine.cwd, ".claude")
  const file = managed ? managedFile(agent, variables) : path.join(directory, "settings.json")
  return { file, config: "", userConfig: "" }
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
      return yield* commandFailed("this is not a terminal, so nobody can confirm the change: use --yes")
    return yield* Effect.promise(async () => {
      const terminal = createInterface({ input: process.stdin, output: process.stderr })
      try {
        return /^y(es)?$/iu.test((await terminal.question(`${question} [y/N] `)).trim())
      } finally {
        terminal.close()
      }
    })
  })

/** Shows the change of a settings file, asks, and writes it. */
const changeFile = Effect.fnUntraced(function* (
  file: string,
  { user, yes }: Place,
  edit: (text: string | undefined) => string | undefined
) {
  const before = yield* readText(file)
  const after = yield* Effect.try({
    try: () => edit(before),
    catch: (error) =>
      commandFailed(
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
  if (!yes && !(yield* confirm(`Write ${file}?`))) {
    yield* Console.error("not written")
    return false
  }
  yield* replace(file, before, after, user ? 0o600 : 0o644)
  yield* Console.error(`written: ${file}`)
  return true
})

/** Why the hooks of this installation cannot be written; undefined if they can. */
const describeInvalid = (
  { agent, defer, http, keyFile, managed, trust }: InstallFlags,
  millis: number | undefined
): string | undefined => {
  if (millis === undefined) return "--wait must be a time such as 90s, 9m or 2h, at most 24h"
  if (agent === "codex" && (defer || http)) return "--defer and --http are for Claude Code: Codex has neither"
  if (trust && (agent !== "codex" || managed))
    return "--trust is for Codex' hooks of a user or project: it runs no others without being told"
  if (http && Option.isSome(keyFile))
    return "--key-file is for the command: with --http, Claude Code reads the key from COUNTERSIGN_KEY"
  if (http && millis > MAX_HTTP_SECONDS * 1_000)
    return `--wait is at most ${MAX_HTTP_SECONDS}s with --http: that is how long the service holds a request`
  return undefined
}

/** Longest wait of one request, as the service accepts it. */
const MAX_HTTP_SECONDS = 540

/** The wait of a request by default: proxies end requests after a minute. */
const DEFAULT_HTTP_WAIT = "50s"

/** Time for `claude --version`. */
const VERSION_MILLIS = 20_000

/** Refuses a version of Claude Code that executes calls whose hook fails. One that cannot be asked is checked by the hook. */
const checkClaudeVersion = Effect.gen(function* () {
  const { variables } = yield* ProcessEnvironment
  const { error, stdout } = yield* Effect.sync(() =>
    spawnSync("claude", ["--version"], { encoding: "utf8", env: variables, timeout: VERSION_MILLIS })
  )
  if (error !== undefined)
    return yield* Console.error(
      `claude could not be asked for its version (${errnoCode(error) ?? error.message})`
    )
  const fault = describeClaudeVersion(stdout)
  if (fault !== undefined) return yield* commandFailed(fault)
})

/** `countersign hook install` */
export const installHooks = Effect.fnUntraced(function* (flags: InstallFlags) {
  const { agent, defer, http, managed, program, trust } = flags
  const { machine } = yield* ProcessEnvironment
  const text = Option.getOrElse(flags.wait, () => (http ? DEFAULT_HTTP_WAIT : DEFAULT_WAIT))
  const millis = parseWait(text)
  const invalid = describeInvalid(flags, millis)
  if (millis === undefined || invalid !== undefined) return yield* commandFailed(String(invalid))
  const given = Option.getOrUndefined(flags.url)
  const fault = given === undefined ? undefined : describeUrlFault(given, "--url")
  if (fault !== undefined) return yield* commandFailed(fault)
  const url = given === undefined ? (http ? DEFAULT_URL : undefined) : baseUrl(given)
  const keyFile = Option.getOrUndefined(Option.map(flags.keyFile, (file) => path.resolve(machine.cwd, file)))
  const wait = { text, millis }
  const installation: HookInstallation = { vendor: agent, url, http, wait, defer, keyFile, managed, program }
  if (agent === "claude-code") yield* checkClaudeVersion
  const { config, file, userConfig } = yield* settingsFiles(flags)
  const isWritten = yield* changeFile(file, flags, (before) =>
    agent === "codex" && managed ? withManagedHooks(before, installation) : withHooks(before, installation)
  )
  if (isWritten)
    yield* Console.error(
      `The hooks read the API key from ${keyFile ?? "COUNTERSIGN_KEY"}. Use a key of the preset hook: the agent's own commands can read it too.`
    )
  if (agent === "claude-code") return
  if (!managed) yield* changeFile(config, flags, withFeatures)
  if (trust) yield* trustHooks(flags, file, userConfig)
  yield* reportCodex
})

/** Codex' state in the current directory. */
const codexState = Effect.gen(function* () {
  const { machine, variables } = yield* ProcessEnvironment
  return yield* Effect.tryPromise({
    try: () => askCodex(machine.cwd, variables),
    catch: (error) =>
      commandFailed(
        `Codex could not be asked whether it runs the hooks (${errnoCode(error) ?? (error instanceof Error ? error.message : String(error))}). Run \`countersign hook check codex\` where it is installed: it skips hooks that nobody has told it to trust`
      )
  })
})

/** Notes in the user's settings of Codex that the hooks of a file are trusted as they are now. */
const trustHooks = Effect.fnUntraced(function* (place: Place, file: string, userConfig: string) {
  const { hooks } = yield* codexState
  const ours = hooks.filter((hook) => hook.file === file)
  if (ours.length === 0)
    return yield* Console.error("Codex does not read the hooks: tell it to trust the project first")
  yield* changeFile(userConfig, { ...place, user: true }, (before) =>
    ours.reduce((text, { hash, key }) => withTrust(text, key, hash), before ?? "")
  )
})

/** Says which hooks Codex runs. Fails with 1 if calls are not governed. */
const describeCodex = Effect.fnUntraced(function* (state: CodexState) {
  for (const { event, file, isEnabled, trust } of state.hooks)
    yield* Console.log(`${event}: ${isEnabled ? trust : "disabled"} (${escapeInvisible(file)})`)
  const faults = describeUngoverned(state)
  if (faults.length > 0)
    return yield* new FailedWithCode({ exitCode: 1, cause: new Error(faults.join("\n")) })
  yield* Console.error("active: Codex runs the hooks")
})

/** After an installation. The hooks can be written before Codex is installed. */
const reportCodex = codexState.pipe(
  Effect.matchEffect({
    onFailure: ({ cause }) => Console.error(cause instanceof Error ? cause.message : String(cause)),
    onSuccess: describeCodex
  })
)

/** `countersign hook check codex` */
export const checkHooks = () => Effect.flatMap(codexState, describeCodex)

/** `countersign hook uninstall` */
export const uninstallHooks = Effect.fnUntraced(function* (place: Place) {
  const { file } = yield* settingsFiles(place)
  const isWritten = yield* changeFile(file, place, (before) =>
    before === undefined
      ? undefined
      : place.agent === "codex" && place.managed
        ? withoutManagedHooks(before)
        : withoutHooks(before)
  )
  const left =
    place.agent === "codex" ? Object.keys(GOVERNED_FEATURES) : switchesOf({ managed: place.managed })
  if (isWritten) yield* Console.error(`${left.join(" and ")} stayed as they were`)
})
