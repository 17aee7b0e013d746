import { homedir } from "node:os"
import path from "node:path"
import { parseArgs } from "node:util"
import type { HookVendor } from "../../domain/hooks/hookVendors.ts"
import { describeFileFailure } from "../fileFailure.ts"
import { describeUrlFault } from "../serviceFailure.ts"
import type { Environment } from "../../server/config/Settings.ts"
import { findAgentProcess } from "./agentProcess.ts"
import { describeRunningClaude } from "./claudeVersion.ts"

/** How a hook answers. */
export interface HookOptions {
  readonly vendor: HookVendor
  readonly url: string
  readonly key: string
  /** How long a call waits for a person. */
  readonly waitMillis: number
  /** Whether a call that needs a person ends the run. */
  readonly defer: boolean
  /** The directory of the hook's files. */
  readonly state: string
  /** Finds the process of the coding agent: undefined if it is not found. */
  readonly findAgent: () => number | undefined
}

/** The flags of the command line, as text. */
export interface HookFlags {
  readonly url: string | undefined
  readonly keyFile: string | undefined
  readonly wait: string | undefined
  readonly state: string | undefined
  readonly defer: boolean
}

/** The default of both vendors for the time of a hook is 10 minutes. A hook that takes longer is ended and does not block its call. */
export const DEFAULT_WAIT = "9m"

export const DEFAULT_URL = "http://127.0.0.1:8080"

const isVendor = (name: string | undefined): name is HookVendor => name === "claude-code" || name === "codex"

/**
 * The vendor and flags of `countersign hook …`, read without the command line's library, whose start takes longer than the request. Undefined
 * for everything else, such as `--help`.
 */
export const readHookArguments = (
  args: ReadonlyArray<string>
): { readonly vendor: HookVendor; readonly flags: HookFlags } | undefined => {
  const [command, vendor, ...rest] = args
  if (command !== "hook" || !isVendor(vendor)) return undefined
  try {
    const { values } = parseArgs({
      args: rest,
      options: {
        url: { type: "string" },
        "key-file": { type: "string" },
        wait: { type: "string" },
        state: { type: "string" },
        defer: { type: "boolean", default: false }
      }
    })
    const { defer, state, url, wait } = values
    return { vendor, flags: { url, keyFile: values["key-file"], wait, state, defer } }
  } catch {
    // The command line's library describes the fault.
    return undefined
  }
}

/** Reads a time such as `90s`, `9m` or `2h`; a number alone is seconds. Undefined if it is none. */
export const parseWait = (text: string): number | undefined => {
  const found = /^(\d{1,6})([smh]?)$/u.exec(text.trim())
  if (found === null) return undefined
  const unit = found[2] === "h" ? 3_600_000 : found[2] === "m" ? 60_000 : 1_000
  const millis = Number(found[1]) * unit
  return millis <= MAX_WAIT_MILLIS ? millis : undefined
}

/** The longest timer. */
const MAX_WAIT_MILLIS = 24 * 3_600_000

/** The directory for the state of programs, by the XDG Base Directory Specification. */
const stateDirectory = (variables: Environment): string => {
  const given = variables["XDG_STATE_HOME"] ?? ""
  const base = path.isAbsolute(given) ? given : path.join(homedir(), ".local", "state")
  return path.join(base, "countersign", "hooks")
}

/** The options by flags and environment; otherwise a text that names the missing or invalid one. */
export const hookOptions = (
  vendor: HookVendor,
  flags: HookFlags,
  variables: Environment,
  readKey: (file: string) => string
): HookOptions | string => {
  const oldAgent = vendor === "claude-code" ? describeRunningClaude(variables) : undefined
  if (oldAgent !== undefined) return oldAgent
  const waitMillis = parseWait(flags.wait ?? DEFAULT_WAIT)
  if (waitMillis === undefined) return "--wait must be a time such as 90s, 9m or 2h, at most 24h"
  if (flags.defer && vendor === "codex")
    return "--defer is for Claude Code: Codex cannot end a run at a call and resume it"
  let key = variables["COUNTERSIGN_KEY"] ?? ""
  if (flags.keyFile !== undefined) {
    try {
      key = readKey(flags.keyFile).split("\n", 1)[0]?.trim() ?? ""
    } catch (error) {
      return `--key-file: ${describeFileFailure(flags.keyFile, error)}`
    }
  }
  if (key === "") return "the API key is missing: set COUNTERSIGN_KEY, or use --key-file"
  const url = flags.url ?? (variables["COUNTERSIGN_URL"] || DEFAULT_URL)
  const fault = describeUrlFault(url, flags.url === undefined ? "COUNTERSIGN_URL" : "--url")
  if (fault !== undefined) return fault
  return {
    vendor,
    url,
    key,
    waitMillis,
    defer: flags.defer,
    state: flags.state ?? stateDirectory(variables),
    findAgent: () => findAgentProcess(vendor, variables)
  }
}
