/** The process of the coding agent that runs a hook. A hook outlives it: nothing ends the processes that a killed agent started. */
import { spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"
import path from "node:path"
import type { HookVendor } from "../../domain/hooks/hookVendors.ts"
import type { Environment } from "../../server/config/Settings.ts"

/** Ancestors that are looked at. Between the two are a shell, and maybe a package runner with a shell of its own. */
const MAX_ANCESTORS = 8

/** Time for `ps`. */
const PS_MILLIS = 2_000

const NAMES: Readonly<Record<HookVendor, RegExp>> = {
  "claude-code": /^claude(\.exe)?$/u,
  codex: /^codex(\.exe)?$/u
}

interface ProcessFacts {
  readonly parent: number
  readonly name: string
}

/** Name and parent of a process; undefined if it has ended or the system does not tell. */
const factsOf = (pid: number): ProcessFacts | undefined => {
  try {
    // `4711 (name) S 4710 …`; the name may contain anything.
    const [, name = "", parent = ""] =
      /^\d+ \((.*)\) \S (\d+)/su.exec(readFileSync(`/proc/${pid}/stat`, "utf8")) ?? []
    return { name, parent: Number(parent) }
  } catch {
    const { stdout } = spawnSync("ps", ["-o", "ppid=,comm=", "-p", String(pid)], {
      encoding: "utf8",
      timeout: PS_MILLIS
    })
    const found = /^\s*(\d+)\s+(.+?)\s*$/u.exec(stdout ?? "")
    return found === null ? undefined : { parent: Number(found[1]), name: path.basename(found[2] ?? "") }
  }
}

/** The process of the coding agent; undefined if it is not found, as on Windows. */
export const findAgentProcess = (vendor: HookVendor, variables: Environment): number | undefined => {
  const given = Number(variables["CLAUDE_PID"])
  if (vendor === "claude-code" && Number.isInteger(given) && given > 1) return given
  if (process.platform === "win32") return undefined
  let pid = process.ppid
  for (let n = 0; n < MAX_ANCESTORS && pid > 1; n++) {
    const facts = factsOf(pid)
    if (facts === undefined) return undefined
    if (NAMES[vendor].test(facts.name)) return pid
    pid = facts.parent
  }
  return undefined
}
