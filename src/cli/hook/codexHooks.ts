/** Asks Codex which hooks it runs, by its app server: JSON-RPC, a message a line. */
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"
import type { Environment } from "../../server/config/Settings.ts"
import { GOVERNED_FEATURES } from "./codexToml.ts"
import { isOurCommand } from "./hookSettings.ts"

/** A hook that Codex knows. */
export interface CodexHook {
  readonly key: string
  readonly event: string
  readonly file: string
  /** `managed`, `trusted`, `untrusted` or `modified`. Codex runs the first two. */
  readonly trust: string
  readonly hash: string
  readonly isEnabled: boolean
  /** Which tools it sees; null for all. */
  readonly matcher: string | null
}

/** How Codex is set in a directory. */
export interface CodexState {
  /** The hooks of Countersign. */
  readonly hooks: ReadonlyArray<CodexHook>
  /** Features that are not as calls are governed with. */
  readonly ungoverned: ReadonlyArray<string>
  /** Whether Codex runs hooks at all. */
  readonly runsHooks: boolean
}

/** Time for all answers. Codex starts in a second. */
const ANSWER_MILLIS = 30_000

const member = (value: unknown, ...names: ReadonlyArray<string>): unknown =>
  names.reduce<unknown>((found, name) => Reflect.get(Object(found), name), value)

const textOf = (value: unknown, name: string): string => {
  const text = member(value, name)
  return typeof text === "string" ? text : ""
}

const listOf = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

/** Asks Codex. Rejects if it cannot be started or does not answer. */
export const askCodex = async (directory: string, variables: Environment): Promise<CodexState> => {
  const child = spawn("codex", ["app-server"], {
    cwd: directory,
    env: variables,
    stdio: ["pipe", "pipe", "ignore"]
  })
  const timer = setTimeout(() => child.kill(), ANSWER_MILLIS)
  const waiting = new Map<unknown, (answer: unknown) => void>()
  const ended = new Promise<never>((_, fail) => {
    child.once("error", fail)
    child.once("close", () => fail(new Error("codex app-server ended without an answer")))
  })
  // It rejects after the last answer too, when no caller waits for it.
  ended.catch(() => undefined)
  // Writing to a program that has ended fails.
  child.stdin.on("error", () => undefined)
  createInterface({ input: child.stdout }).on("line", (line) => {
    try {
      const message: unknown = JSON.parse(line)
      waiting.get(member(message, "id"))?.(message)
    } catch {
      // Not a message.
    }
  })
  const call = async (method: string, params: object): Promise<unknown> => {
    const id = waiting.size + 1
    const answered = new Promise<unknown>((done) => waiting.set(id, done))
    child.stdin.write(`${JSON.stringify({ id, method, params })}\n`)
    const answer = await Promise.race([answered, ended])
    const result = member(answer, "result")
    if (result === undefined) throw new Error(`codex app-server does not answer ${method}: update Codex`)
    return result
  }
  try {
    const clientInfo = { name: "countersign", title: "Countersign", version: "1" }
    await call("initialize", { clientInfo, capabilities: {} })
    child.stdin.write(`${JSON.stringify({ method: "initialized" })}\n`)
    const { config } = Object(await call("config/read", { cwd: directory }))
    const { requirements } = Object(await call("configRequirements/read", {}))
    const { data } = Object(await call("hooks/list", { cwds: [directory] }))
    const feature = (name: string): unknown =>
      member(requirements, "featureRequirements", name) ?? member(config, "features", name)
    return {
      runsHooks: feature("hooks") !== false,
      ungoverned: Object.entries(GOVERNED_FEATURES)
        .filter(([name, governed]) => feature(name) !== governed)
        .map(([name]) => name),
      hooks: listOf(data)
        .flatMap((place) => listOf(member(place, "hooks")))
        .filter((hook) => isOurCommand(member(hook, "command")))
        .map((hook) => {
          const matcher = member(hook, "matcher")
          return {
            key: textOf(hook, "key"),
            event: textOf(hook, "eventName"),
            file: textOf(hook, "sourcePath"),
            trust: textOf(hook, "trustStatus"),
            hash: textOf(hook, "currentHash"),
            isEnabled: member(hook, "enabled") === true,
            matcher: typeof matcher === "string" ? matcher : null
          }
        })
    }
  } finally {
    clearTimeout(timer)
    child.kill()
  }
}

/** Whether Codex runs a hook before every call. */
const isActive = ({ event, isEnabled, matcher, trust }: CodexHook): boolean =>
  event === "preToolUse" &&
  isEnabled &&
  (matcher === null || matcher === "" || matcher === "*") &&
  (trust === "managed" || trust === "trusted")

/** Why calls are not governed, as sentences; empty if they are. */
export const describeUngoverned = ({ hooks, runsHooks, ungoverned }: CodexState): ReadonlyArray<string> => {
  const asking = hooks.filter(({ event }) => event === "preToolUse")
  const inactive = (reason: string) => `not active: calls are not governed. ${reason}`
  if (!runsHooks)
    return [inactive("Codex runs no hooks: set `hooks = true` in [features] of its config.toml.")]
  if (asking.length === 0)
    return [
      inactive(
        "Codex finds no hook of Countersign here. It reads those of a project only after you have told it to trust the project."
      )
    ]
  if (!asking.some(isActive))
    return [
      inactive(
        `Codex skips the hook: ${asking.map(({ file, trust }) => `${trust} in ${file}`).join(", ")}. Enter /hooks in Codex, or install with --trust, or with --managed.`
      )
    ]
  return ungoverned.map(
    (name) =>
      `partly active: what a model writes to a program that runs is not governed. Set \`${name} = false\` in [features] of config.toml, or install again.`
  )
}
