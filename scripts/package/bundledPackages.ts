import path from "node:path"
import { type PublishedPackages, root } from "./lockedPackages.ts"

/** The place in the lockfile of the package that a bundled module belongs to, or `undefined` for a module of this repository. */
const placeOf = (module: string): string | undefined =>
  /^((?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(
    path.relative(root, path.resolve(root, module)).split(path.sep).join("/")
  )?.[1]

/**
 * The places of the packages that bundled modules belong to. Throws if one of them is not known to be published: the lists of licences and
 * components would lack it.
 */
export const bundledPackages = (
  modules: Iterable<string>,
  { bundledOnly, installed }: Pick<PublishedPackages, "bundledOnly" | "installed">
): ReadonlySet<string> => {
  const places = new Set<string>()
  for (const module of modules) {
    // Bundlers mark modules of their own by a zero byte.
    const place = module.startsWith("\0") ? undefined : placeOf(module)
    if (place !== undefined) places.add(place)
  }
  for (const place of places) {
    if (!installed.has(place) && !bundledOnly.has(place))
      throw new Error(
        `dist bundles ${place}, which neither package.json's dependencies nor BUNDLED_PACKAGES (scripts/package/lockedPackages.ts) bring`
      )
  }
  return places
}
