/** The files of the built console page, read into memory on the first request for the console. */
import { Effect, Option } from "effect"
import { Mime } from "effect/http"
import { readdir, readFile } from "node:fs/promises"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { gzip } from "node:zlib"
import type { ContentCoding } from "../../http/preferredEncoding.ts"

/** A file as it is served. */
export interface Asset {
  readonly type: string
  readonly bytes: Uint8Array
  /** The bytes in codings that compress them, for types that compress well. */
  readonly encoded: Readonly<Partial<Record<ContentCoding, Uint8Array>>>
}

/** Files by their path under `/console/`. */
export type Assets = ReadonlyMap<string, Asset>

const here = path.dirname(fileURLToPath(import.meta.url))

/** The folders of a checkout that can contain this module: that of its source, and that of the bundles of `scripts/setup.js`. */
const SOURCE = path.join("src", "server", "console", "Console")
const BUNDLES = ".bundles"

/** The root of the checkout whose source or bundle is in this folder; undefined in the published package. */
const checkoutOf = (folder: string): string | undefined => {
  const parent = path.dirname(folder)
  if (parent.endsWith(path.sep + BUNDLES)) return parent.slice(0, -BUNDLES.length)
  return folder.endsWith(path.sep + SOURCE) ? folder.slice(0, -SOURCE.length) : undefined
}

/**
 * The folders that may contain the build, seen from the folder of this module: in a checkout the folder that `scripts/setup.js` fills; in the
 * published package beside the bundle or beside its folder of chunks.
 */
export const buildDirectories = (folder: string): ReadonlyArray<string> => {
  const checkout = checkoutOf(folder)
  return checkout === undefined
    ? [path.join(folder, "console"), path.join(folder, "..", "console")]
    : [path.join(checkout, ".console")]
}

/** The most files that are loaded, far more than the build creates. */
const MAX_FILES = 500

const compress = promisify(gzip)

/** The build compresses files at the highest quality, which takes seconds; gzip takes milliseconds. */
const BROTLI_SUFFIX = ".br"

const load = async (directory: string): Promise<Assets> => {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  const files = entries
    .filter((entry) => entry.isFile() && !entry.name.endsWith(BROTLI_SUFFIX))
    .slice(0, MAX_FILES)
  const loaded = await Promise.all(
    files.map(async (entry): Promise<readonly [string, Asset]> => {
      const file = path.join(entry.parentPath, entry.name)
      const bytes = await readFile(file)
      const type = Option.getOrElse(Mime.getType(entry.name), () => "application/octet-stream")
      const name = path.relative(directory, file).replaceAll(path.sep, "/")
      if (!/^(text\/|application\/(json|javascript)|image\/svg)/.test(type))
        return [name, { type, bytes, encoded: {} }]
      const [brotli, gzipped] = await Promise.all([
        readFile(file + BROTLI_SUFFIX).catch(() => undefined),
        compress(bytes, { level: 9 })
      ])
      return [
        name,
        { type, bytes, encoded: { ...(brotli === undefined ? {} : { br: brotli }), gzip: gzipped } }
      ]
    })
  )
  return new Map(loaded)
}

/** Loads the first build that exists; undefined if the console is not built. */
export const findAssets: Effect.Effect<Assets | undefined> = Effect.promise(async () => {
  for (const directory of buildDirectories(here)) {
    const assets = await readdir(path.join(directory, "assets")).catch(() => [])
    if (assets.length > 0) return load(directory)
  }
  return undefined
})
