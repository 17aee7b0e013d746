import { Schema } from "effect"

/** The names of a backup's files beside the directory of the cluster. */
export const MANIFEST_FILE = "manifest.json"
export const CHECKSUMS_FILE = "SHA256SUMS"
/** The signature of the checksums, and so of all files: made with a key that is derived from the master key, which no backup contains. */
export const SIGNATURE_FILE = "SHA256SUMS.hmac"
export const CLUSTER_DIRECTORY = "postgres"

/** The version of the format of backups. Other versions are refused. */
export const BACKUP_FORMAT = 1

/** Suffix of compressed files. */
export const COMPRESSED_SUFFIX = ".gz"

/** Describes the content of a backup, so that a restore can refuse one that it cannot open. */
export class BackupManifest extends Schema.Class<BackupManifest>("BackupManifest")({
  format: Schema.Int,
  /** Version of Countersign that made the backup. */
  countersign: Schema.String,
  /** When the backup ended, which is the time that it restores. */
  completed_at: Schema.String,
  postgres_major: Schema.Int,
  platform: Schema.String,
  arch: Schema.String,
  /** Number of the newest migration; 0: the database has no tables yet. */
  schema_version: Schema.Int,
  /** The master keys that seal secrets of the database, by id. The backup does not contain them. */
  master_key_ids: Schema.Array(Schema.String),
  compression: Schema.Literals(["none", "gzip"]),
  /** Files of the cluster, and their bytes without compression. */
  files: Schema.Int,
  bytes: Schema.Int,
  /** Directories of the cluster, parents first. */
  directories: Schema.Array(Schema.String)
}) {}

/** The manifest as the content of its file. */
export const ManifestJson = Schema.fromJsonString(BackupManifest)

/** A manifest of any format, to name the format that is refused. */
export const AnyManifestJson = Schema.fromJsonString(Schema.Struct({ format: Schema.Int }))

/**
 * Whether a path of a backup is one that this program writes: relative, of letters, digits, `.`, `_` and `-`, and without `.` and `..`.
 * A restore writes to these paths, so others are refused.
 */
export const isBackupPath = (text: string): boolean =>
  text.length < 1_000 &&
  text.split("/").every((name) => /^[\w.-]+$/.test(name) && name !== "." && name !== "..")

/** A line of `sha256sum`. */
export const checksumLine = (digest: string, file: string): string => `${digest}  ${file}\n`

/** The checksums of a backup by path; undefined if a line is none of this program's. */
export const parseChecksums = (text: string): ReadonlyMap<string, string> | undefined => {
  const digests = new Map<string, string>()
  if (!text.endsWith("\n")) return undefined
  for (const line of text.slice(0, -1).split("\n")) {
    const [, digest, file] = /^([0-9a-f]{64}) {2}(.+)$/.exec(line) ?? []
    if (digest === undefined || file === undefined || !isBackupPath(file) || digests.has(file))
      return undefined
    digests.set(file, digest)
  }
  return digests
}
