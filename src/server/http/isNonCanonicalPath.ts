import { Api } from "../../api/Api.ts"
import { ConsoleApi } from "../../api/Console.ts"
import { LeakedKeysApi } from "../../api/LeakedKeys.ts"

/** The fixed segments of all paths. */
const words: ReadonlySet<string> = new Set([
  ...["healthz", "readyz", "metrics", "openapi.json", "docs", "console", "api", "assets", "verify-email"],
  ...[
    ...Object.values(Api.groups),
    ...Object.values(ConsoleApi.groups),
    ...Object.values(LeakedKeysApi.groups)
  ].flatMap((group) =>
    Object.values(group.endpoints).flatMap(({ path }) =>
      path.split("/").filter((segment: string) => segment !== "" && !segment.startsWith(":"))
    )
  )
])

/**
 * Whether a path is a known one in another form: with a slash at its end, or with percent-encoded characters in a fixed segment. The
 * router accepts these, but a reverse proxy that closes a path may not recognize them.
 */
export const isNonCanonicalPath = (url: string): boolean => {
  const end = url.search(/[?#]/)
  const path = end === -1 ? url : url.slice(0, end)
  if (path.endsWith("/") && path !== "/" && !isPage(path)) return true
  return path.includes("%") && path.split("/").some((segment) => segment.includes("%") && isWord(segment))
}

/** The console interprets the paths of its pages itself. */
const isPage = (path: string): boolean => path.startsWith("/console/") && !path.startsWith("/console/api/")

const isWord = (segment: string): boolean => {
  try {
    return words.has(decodeURIComponent(segment))
  } catch {
    return false
  }
}
