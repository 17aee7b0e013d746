import { Option, Schema } from "effect"
import { readFile, writeFile } from "node:fs/promises"
import { hostname } from "node:os"
import path from "node:path"

/** The process that a temporary directory belongs to. */
const OwnerRecord = Schema.fromJsonString(
  Schema.Struct({
    pid: Schema.Int,
    /** When the process started, as the system counts it. Null if the system does not tell: a process with its id is then taken for it. */
    started: Schema.NullOr(Schema.String),
    /** Process ids mean something on one host, or in one container, only. */
    host: Schema.String
  })
)

const fileIn = (directory: string): string => path.join(directory, "owner.json")

/** When a process started, in ticks since the machine's start; null if it does not exist, or on systems other than Linux. */
const startOf = async (pid: number): Promise<string | null> => {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8")
    // The second field is the name of the program in parentheses, and may contain both spaces and parentheses.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? null
  } catch {
    return null
  }
}

const exists = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch (cause) {
    // EPERM: it belongs to another account.
    return !(cause instanceof Error && "code" in cause && cause.code === "ESRCH")
  }
}

/** Records this process as the owner of a directory. */
export const writeOwner = async (directory: string): Promise<void> => {
  const record = { pid: process.pid, started: await startOf(process.pid), host: hostname() }
  await writeFile(fileIn(directory), JSON.stringify(record), { mode: 0o600 })
}

/** Whether the owner of a directory has ended; `unknown` if it has no readable record, or runs on another host. */
export const ownerState = async (directory: string): Promise<"running" | "ended" | "unknown"> => {
  const text = await readFile(fileIn(directory), "utf8").catch(() => "")
  const record = Schema.decodeUnknownOption(OwnerRecord)(text)
  if (Option.isNone(record) || record.value.host !== hostname()) return "unknown"
  const { pid, started } = record.value
  if (!exists(pid)) return "ended"
  return started === null || (await startOf(pid)) === started ? "running" : "ended"
}
