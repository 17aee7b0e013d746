import { Schema } from "effect"
import { readFileSync } from "node:fs"
import path from "node:path"
import { fileURLToPath } from "node:url"

export const root = fileURLToPath(new URL("../..", import.meta.url))

const Versions = Schema.optionalKey(Schema.Record(Schema.String, Schema.String))
const Entry = Schema.Struct({
  name: Schema.optionalKey(Schema.String),
  version: Schema.optionalKey(Schema.String),
  integrity: Schema.optionalKey(Schema.String),
  license: Schema.optionalKey(Schema.String),
  os: Schema.optionalKey(Schema.Array(Schema.String)),
  optional: Schema.optionalKey(Schema.Boolean),
  dependencies: Versions,
  optionalDependencies: Versions,
  peerDependencies: Versions,
  peerDependenciesMeta: Schema.optionalKey(
    Schema.Record(Schema.String, Schema.Struct({ optional: Schema.optionalKey(Schema.Boolean) }))
  )
})
type Entry = typeof Entry.Type

const Lockfile = Schema.fromJsonString(Schema.Struct({ packages: Schema.Record(Schema.String, Entry) }))

/** A package of the lockfile. */
export interface LockedPackage {
  /** Its folder below the repository, such as `node_modules/ajv/node_modules/fast-uri`. */
  readonly place: string
  readonly name: string
  readonly version: string
  /** `sha512-` and the digest of npm's tarball in base64; missing for a few packages of other platforms. */
  readonly integrity: string | undefined
  /** An SPDX expression. */
  readonly license: string
  readonly isOptional: boolean
  /** Places of the packages that it needs. */
  readonly needs: ReadonlyArray<string>
}

/** Development dependencies that `scripts/build.ts` bundles. Everything else that is published is a dependency of package.json. */
const BUNDLED_PACKAGES = [
  "@effect/platform-node",
  "@tanstack/react-virtual",
  "d3-scale",
  "d3-shape",
  "react",
  "react-aria-components",
  "react-dom"
]

const ownNames = (entry: Entry): ReadonlyArray<string> => [
  ...Object.keys(entry.dependencies ?? {}),
  ...Object.keys(entry.optionalDependencies ?? {})
]

const peerNames = (entry: Entry): ReadonlyArray<string> =>
  Object.keys(entry.peerDependencies ?? {}).filter(
    (name) => entry.peerDependenciesMeta?.[name]?.optional !== true
  )

/** What npm installs with a package: its dependencies, and the peers that it cannot do without. */
const installedNames = (entry: Entry) => [...ownNames(entry), ...peerNames(entry)]

/** The package that a name means in a folder: the nearest `node_modules` upwards that has it. */
const resolve = (
  entries: Readonly<Record<string, Entry>>,
  from: string,
  name: string
): string | undefined => {
  for (let folder = from; ; folder = folder.slice(0, Math.max(folder.lastIndexOf("node_modules/") - 1, 0))) {
    const place = `${folder === "" ? "" : `${folder}/`}node_modules/${name}`
    if (place in entries) return place
    if (folder === "") return undefined
  }
}

/** The named packages and all that they bring, if each brings `namesOf`. */
const closureOf = (
  entries: Readonly<Record<string, Entry>>,
  names: ReadonlyArray<string>,
  namesOf: (entry: Entry) => ReadonlyArray<string>
) => {
  const found = new Map<string, LockedPackage>()
  const placesOf = (from: string, needed: ReadonlyArray<string>) =>
    needed.map((name) => resolve(entries, from, name)).filter((place) => place !== undefined)
  const add = (place: string): void => {
    const entry = entries[place]
    if (entry === undefined || found.has(place)) return
    const needs = placesOf(place, namesOf(entry))
    found.set(place, {
      place,
      name: entry.name ?? place.slice(place.lastIndexOf("node_modules/") + "node_modules/".length),
      version: entry.version ?? "",
      integrity: entry.integrity,
      license: entry.license ?? "NOASSERTION",
      isOptional: entry.optional === true,
      needs
    })
    needs.forEach(add)
  }
  placesOf("", names).forEach(add)
  return found
}

/** The packages that are installed with the published package. */
export interface PublishedPackages {
  readonly name: string
  readonly version: string
  readonly license: string
  /** Packages that npm installs with it, by place. */
  readonly installed: ReadonlyMap<string, LockedPackage>
  /** Packages that are bundled, wholly or in part or not at all, and that npm does not install, by place. */
  readonly bundledOnly: ReadonlyMap<string, LockedPackage>
  /** Places of the packages that package.json names. */
  readonly direct: ReadonlyArray<string>
}

/** Reads the lockfile. */
export const readPublishedPackages = (): PublishedPackages => {
  const { packages: entries } = Schema.decodeUnknownSync(Lockfile)(
    readFileSync(path.join(root, "package-lock.json"), "utf8")
  )
  const own = entries[""]
  if (own === undefined) throw new Error("package-lock.json lacks the entry of this package")
  const names = installedNames(own)
  const installed = closureOf(entries, names, installedNames)
  // Peers of bundled packages are themselves in the list, or are not used.
  const bundled = closureOf(entries, BUNDLED_PACKAGES, ownNames)
  return {
    name: own.name ?? "",
    version: own.version ?? "",
    license: own.license ?? "",
    installed,
    bundledOnly: new Map([...bundled].filter(([place]) => !installed.has(place))),
    direct: names.map((name) => `node_modules/${name}`).filter((place) => installed.has(place))
  }
}

const compareTexts = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/** Every published package, sorted by name and version. */
export const publishedList = ({ bundledOnly, installed }: PublishedPackages): ReadonlyArray<LockedPackage> =>
  [...installed.values(), ...bundledOnly.values()].toSorted(
    (a, b) => compareTexts(a.name, b.name) || compareTexts(a.version, b.version)
  )
