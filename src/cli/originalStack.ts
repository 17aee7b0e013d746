import { readFileSync } from "node:fs"
import { SourceMap } from "node:module"
import { fileURLToPath } from "node:url"

/** A position in a stack trace: a file URL of JavaScript, a line and a column. */
const POSITION = /(file:\/\/[^\s()]+\.js):(\d+):(\d+)/g

/** Parsed maps by file URL. Weak: a bundle's maps are tens of megabytes in memory and hardly ever needed. */
const parsed = new Map<string, WeakRef<SourceMap>>()

/** Reads the source map beside a file; undefined if there is none. */
const mapOf = (url: string): SourceMap | undefined => {
  const known = parsed.get(url)?.deref()
  if (known !== undefined) return known
  try {
    const map = new SourceMap(JSON.parse(readFileSync(fileURLToPath(`${url}.map`), "utf8")))
    parsed.set(url, new WeakRef(map))
    return map
  } catch {
    return undefined
  }
}

/**
 * Replaces positions in a bundle by those in its sources. The bundle of a checkout has source maps, but Node is not started with
 * `--enable-source-maps`, which would load all of them at start and slow down every stack trace, printed or not.
 */
export const originalStack = (stack: string): string =>
  stack.replace(POSITION, (position, url: string, line: string, column: string) => {
    const entry = mapOf(url)?.findEntry(Number(line) - 1, Number(column) - 1)
    return entry !== undefined && "originalSource" in entry
      ? `${new URL(entry.originalSource, url).href}:${entry.originalLine + 1}:${entry.originalColumn + 1}`
      : position
  })
