/** The hooks of Countersign in a coding agent's settings file. Pure: file contents in and out. */
import type { HookVendor } from "../../domain/hooks/hookVendors.ts"

/** The installed hooks. */
export interface HookInstallation {
  readonly vendor: HookVendor
  /** The base URL of the service; undefined for that of the environment, or of this machine. */
  readonly url: string | undefined
  /** Whether Claude Code posts to the service, without a command. */
  readonly http: boolean
  /** How long a call waits for a person, in milliseconds, as given. */
  readonly wait: { readonly text: string; readonly millis: number }
  readonly defer: boolean
  /** The file with the API key; undefined for the variable. */
  readonly keyFile: string | undefined
  /** Whether the settings are the machine's, which its users cannot change. */
  readonly managed: boolean
  /** The command line that starts Countersign. */
  readonly program: string
}

/** The variable with the API key, which the settings name and do not contain. */
const KEY_VARIABLE = "COUNTERSIGN_KEY"

/** Time of a hook besides the wait for a person. It must be longer than the time-out of the command for a service that does not answer. */
const MARGIN_SECONDS = 60

/** Time of a hook that only reports. */
const REPORT_SECONDS = 60

/** Time of the hook at the end of a session. Claude Code gives 1.5 seconds otherwise. */
const END_SECONDS = 10

export type Hook = Readonly<Record<string, string | number | boolean | object>>

/** The settings are not of the form that the coding agent reads. */
export class UnknownSettings extends Error {}

/** A text for a shell. */
const quote = (text: string): string =>
  /^[\w:/.@-]+$/u.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`

/**
 * The command line. A coding agent executes a call whose hook cannot be started or is killed: Codex, and Claude Code before `onFailure`. Exit
 * code 2 with a text on stderr blocks the call. Any shell reads the line, also one without POSIX syntax.
 */
const commandOf = ({ defer, keyFile, program, url, vendor, wait }: HookInstallation): string =>
  [
    program,
    "hook",
    vendor,
    "--wait",
    quote(wait.text),
    ...(defer ? ["--defer"] : []),
    ...(keyFile === undefined ? [] : ["--key-file", quote(keyFile)]),
    ...(url === undefined ? [] : ["--url", quote(url)]),
    `|| /bin/sh -c 'echo "countersign hook failed" >&2; exit 2'`
  ].join(" ")

/** The hooks by event. */
export const wantedHooks = (installation: HookInstallation): Readonly<Record<string, Hook>> => {
  const { http, vendor, wait } = installation
  const waitSeconds = Math.ceil(wait.millis / 1_000)
  const askSeconds = waitSeconds + MARGIN_SECONDS
  if (vendor === "codex") {
    const command = commandOf(installation)
    const hook = (timeout: number, more: Hook = {}): Hook => ({ type: "command", command, timeout, ...more })
    const waiting = { statusMessage: "Waiting for Countersign" }
    return {
      PreToolUse: hook(askSeconds, waiting),
      PermissionRequest: hook(askSeconds, waiting),
      PostToolUse: hook(REPORT_SECONDS),
      // Codex before 0.145 ignores it.
      SessionEnd: hook(END_SECONDS)
    }
  }
  const target: Hook = http
    ? {
        type: "http",
        url: `${installation.url ?? ""}${HTTP_PATH}?wait_seconds=${waitSeconds}${installation.defer ? "&defer=true" : ""}`,
        headers: { Authorization: `Bearer $${KEY_VARIABLE}` },
        allowedEnvVars: [KEY_VARIABLE]
      }
    : { type: "command", command: commandOf(installation) }
  const ask = { ...target, timeout: askSeconds, onFailure: "block", statusMessage: "Waiting for Countersign" }
  const report = { ...target, timeout: REPORT_SECONDS }
  return {
    PreToolUse: ask,
    // Over HTTP, the service could not tell to which call the permission belongs.
    ...(http ? {} : { PermissionRequest: ask }),
    PostToolUse: report,
    PostToolUseFailure: report,
    SessionEnd: { ...target, timeout: END_SECONDS }
  }
}

/** The path of the operation for Claude Code's HTTP hooks. */
export const HTTP_PATH = "/v1/hooks/claude-code"

/** Whether a command is one that `install` writes. */
export const isOurCommand = (command: unknown): boolean =>
  typeof command === "string" && /\bcountersign\b.* hook (claude-code|codex) --wait /u.test(command)

/** Whether a hook is one that `install` writes. */
const isOurs = (hook: unknown): boolean => {
  if (!isObject(hook)) return false
  const { command, url } = hook
  return (
    isOurCommand(command) || (typeof url === "string" && url.split("?", 1)[0]?.endsWith(HTTP_PATH) === true)
  )
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The groups of an event. */
const groupsOf = (hooks: Readonly<Record<string, unknown>>, event: string): ReadonlyArray<unknown> => {
  const groups = hooks[event]
  if (groups === undefined) return []
  if (Array.isArray(groups)) return groups
  throw new UnknownSettings(`\`hooks.${event}\` is not a list`)
}

/** The groups without our hooks, and without the groups that had no other. */
const withoutOurs = (groups: ReadonlyArray<unknown>): ReadonlyArray<unknown> =>
  groups.flatMap((group) => {
    if (!isObject(group) || !Array.isArray(group["hooks"])) return [group]
    const hooks: ReadonlyArray<unknown> = group["hooks"]
    const others = hooks.filter((hook) => !isOurs(hook))
    if (others.length === hooks.length) return [group]
    return others.length === 0 ? [] : [{ ...group, hooks: others }]
  })

/** Settings with these hooks in place of the ones that were installed before; without any if there is none. */
const change = (
  text: string | undefined,
  wanted: Readonly<Record<string, Hook>>,
  switches: ReadonlyArray<string> = []
): string => {
  const settings = parse(text)
  for (const name of switches) settings[name] = true
  const before = settings["hooks"]
  if (before !== undefined && !isObject(before)) throw new UnknownSettings("`hooks` is not an object")
  const hooks: Record<string, unknown> = { ...before }
  for (const event of new Set([...Object.keys(hooks), ...Object.keys(wanted)])) {
    const groups = groupsOf(hooks, event)
    const ours = Object.hasOwn(wanted, event) ? [{ hooks: [wanted[event]] }] : []
    const isInstalled = ours.some((own) =>
      groups.some((group) => JSON.stringify(group) === JSON.stringify(own))
    )
    const others = withoutOurs(groups)
    if (isInstalled && others.length === groups.length - 1) continue
    if (others.length + ours.length > 0) hooks[event] = [...others, ...ours]
    else if (groups.length > 0) delete hooks[event]
  }
  const isEmpty = Object.keys(hooks).length === 0
  if (isEmpty && (before === undefined || Object.keys(before).length > 0)) delete settings["hooks"]
  else settings["hooks"] = hooks
  return format(settings, text)
}

const parse = (text: string | undefined): Record<string, unknown> => {
  if (text === undefined || text.trim() === "") return {}
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new UnknownSettings("it is not JSON")
  }
  if (!isObject(value)) throw new UnknownSettings("it is not a JSON object")
  return value
}

/** The settings as text, with the indentation that the file had. The text itself if nothing changed. */
const format = (settings: Record<string, unknown>, before: string | undefined): string => {
  const isSame = before !== undefined && JSON.stringify(parse(before)) === JSON.stringify(settings)
  if (isSame) return before
  const indent = /^[{[]\r?\n([ \t]+)/u.exec(before?.trimStart() ?? "")?.[1] ?? "  "
  return `${JSON.stringify(settings, null, indent)}\n`
}

/** The contents of a settings file with the hooks installed. Throws {@link UnknownSettings}. */
export const withHooks = (text: string | undefined, installation: HookInstallation): string =>
  change(text, wantedHooks(installation), installation.vendor === "codex" ? [] : switchesOf(installation))

/**
 * Settings of Claude Code beside the hooks. Commands in the text of a skill or slash command run without a call of a tool, so no hook sees
 * them. Hooks of projects could change a call after its decision, and projects cannot disable the machine's hooks.
 */
export const switchesOf = ({ managed }: Pick<HookInstallation, "managed">): ReadonlyArray<string> => [
  "disableSkillShellExecution",
  ...(managed ? ["allowManagedHooksOnly"] : [])
]

/** The contents of a settings file without hooks of Countersign. Throws {@link UnknownSettings}. */
export const withoutHooks = (text: string): string => change(text, {})
