import { lstat, readdir } from "node:fs/promises"
import path from "node:path"
import { errnoCode } from "../../errnoCode.ts"

/**
 * Directories whose content a base backup leaves out, because the server creates it at its start. The write-ahead log is copied
 * separately.
 * Source: https://www.postgresql.org/docs/18/protocol-replication.html, BASE_BACKUP
 */
const EMPTIED = new Set([
  "pg_dynshmem",
  "pg_notify",
  "pg_replslot",
  "pg_serial",
  "pg_snapshots",
  "pg_stat_tmp",
  "pg_subtrans",
  "pg_wal"
])

/** Files that belong to the running server, and left-overs of an earlier backup. */
const LEFT_OUT =
  /^(?:postmaster\.(?:pid|opts)|\.s\.PGSQL\..*|backup_label(?:\.old)?|backup_manifest(?:\.tmp)?|tablespace_map(?:\.old)?|postgresql\.auto\.conf\.tmp|current_logfiles(?:\.tmp)?|pg_internal\.init.*|pgsql_tmp.*)$/

/** The control file, which is copied last and in one piece. */
export const CONTROL_FILE = "global/pg_control"

/** The directories that the server needs in an emptied one. */
const WAL_DIRECTORIES = ["pg_wal/archive_status", "pg_wal/summaries"]

/** The files and directories that a base backup copies. */
export interface ClusterFiles {
  /** Paths relative to the cluster, parents first. */
  readonly directories: ReadonlyArray<string>
  /** Paths relative to the cluster, without the control file and the write-ahead log. */
  readonly files: ReadonlyArray<string>
  readonly bytes: number
}

/** Lists the files of a cluster whose server may be running: files that disappear meanwhile are left out. */
export const listClusterFiles = async (cluster: string): Promise<ClusterFiles> => {
  const directories: Array<string> = [...WAL_DIRECTORIES]
  const files: Array<string> = []
  let bytes = 0
  const visit = async (relative: string): Promise<void> => {
    const entries = await readdir(path.join(cluster, relative), { withFileTypes: true }).catch(
      (cause: unknown) => {
        if (errnoCode(cause) === "ENOENT" && relative !== "") return []
        throw cause
      }
    )
    for (const entry of entries) {
      if (LEFT_OUT.test(entry.name)) continue
      const name = relative === "" ? entry.name : `${relative}/${entry.name}`
      if (entry.isDirectory()) {
        directories.push(name)
        if (!EMPTIED.has(name)) await visit(name)
      } else if (entry.isFile() && name !== CONTROL_FILE) {
        const facts = await lstat(path.join(cluster, name)).catch(() => undefined)
        if (facts === undefined) continue
        files.push(name)
        bytes += facts.size
      }
    }
  }
  await visit("")
  return { directories: directories.toSorted(), files, bytes }
}
