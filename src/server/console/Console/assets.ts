/** The built page: its files, read into memory when the console is first asked for. */
import { Effect, Option } from "effect"
import { Mime } from "effect/http"
import { readdir, readFile } from "node:fs/promises"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { gzip } from "node:zlib"

/** A file as it is sent. */
export interface Asset {
  readonly type: string
  readonly bytes: Uint8Array
  /** Where that is smaller. */
  readonly gzipped: Uint8Array | undefined
}

/** The files by their path under `/console/`. */
export type Assets = ReadonlyMap<string, Asset>

const here = path.dirname(fileURLToPath(import.meta.url))

/**
 * Where a build may lie: in a package beside the bundle or beside its folder of chunks; in a checkout in the folder that
 * `scripts/setup.js` fills.
 */
const places = [
  path.join(here, "console"),
  path.join(here, "..", "console"),
  path.join(here, "..", "..", "..", "..", ".console")
]

/** Files of more than this are nothing that the build makes. */
const MAX_FILES = 500

const compress = promisify(gzip)

const load = async (directory: string): Promise<Assets> => {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile()).slice(0, MAX_FILES)
  const loaded = await Promise.all(
    files.map(async (entry): Promise<readonly [string, Asset]> => {
      const file = path.join(entry.parentPath, entry.name)
      const bytes = await readFile(file)
      const type = Option.getOrElse(Mime.getType(entry.name), () => "application/octet-stream")
      const gzipped = /^(text\/|application\/(json|javascript)|image\/svg)/.test(type)
        ? await compress(bytes, { level: 9 })
        : undefined
      const name = path.relative(directory, file).replaceAll(path.sep, "/")
      return [name, { type, bytes, gzipped }]
    })
  )
  return new Map(loaded)
}

/** The page of the first place that holds one; none: it is not built. */
export const findAssets: Effect.Effect<Assets | undefined> = Effect.promise(async () => {
  for (const directory of places) {
    // The sources of the page lie in a folder of the same name, but hold no `assets`.
    const found = await readdir(path.join(directory, "assets")).catch(() => [])
    if (found.length > 0) return load(directory)
  }
  return undefined
})
