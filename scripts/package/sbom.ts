/**
 * Makes the software bill of materials of the published package, `dist/sbom.cdx.json`, in CycloneDX 1.6: the npm
 * packages that it bundles or that npm installs with it, and the native libraries in the packaged PostgreSQL, which no
 * lockfile lists.
 *
 * `npm sbom` lists neither bundled nor native libraries, and includes the time and the machine's npm: two builds of one
 * commit would differ.
 */
import { createHash } from "node:crypto"
import { type LockedPackage, publishedList, type PublishedPackages } from "./lockedPackages.ts"
import { type NativeLibrary, nativeLibraries } from "./nativeLibraries.ts"

/** A component of a CycloneDX document, with the members that are used here. */
export interface Component {
  readonly type: "application" | "library"
  readonly "bom-ref": string
  readonly group?: string
  readonly name: string
  readonly version?: string
  readonly scope?: "required" | "optional"
  readonly hashes?: ReadonlyArray<{ readonly alg: "SHA-256" | "SHA-512"; readonly content: string }>
  readonly licenses?: ReadonlyArray<
    | { readonly expression: string }
    | { readonly license: { readonly id: string } }
    | { readonly license: { readonly name: string } }
  >
  readonly copyright?: string
  readonly cpe?: string
  readonly purl?: string
  readonly properties?: ReadonlyArray<{ readonly name: string; readonly value: string }>
  readonly components?: ReadonlyArray<Component>
}

/** A CycloneDX document, with the members that are used here. */
export interface Bom {
  readonly $schema: string
  readonly bomFormat: "CycloneDX"
  readonly specVersion: "1.6"
  readonly serialNumber: string
  readonly version: number
  readonly metadata: {
    readonly lifecycles: ReadonlyArray<{ readonly phase: "build" }>
    readonly component: Component
  }
  readonly components: ReadonlyArray<Component>
  readonly dependencies: ReadonlyArray<{ readonly ref: string; readonly dependsOn: ReadonlyArray<string> }>
}

/** The package URL of an npm package. The `@` of a scope is escaped. */
const purlOf = (name: string, version: string): string =>
  `pkg:npm/${name.replace(/^@/, "%40")}@${encodeURIComponent(version)}`

const licensesOf = (expression: string): NonNullable<Component["licenses"]> => {
  if (expression.startsWith("LicenseRef-")) return [{ license: { name: expression } }]
  return / (?:AND|OR|WITH) /.test(expression) ? [{ expression }] : [{ license: { id: expression } }]
}

const nativeComponent = (parent: string, library: NativeLibrary): Component => {
  const version = library.version
  return {
    type: "library",
    "bom-ref": `${parent}#${library.name}`,
    name: library.name,
    ...(version === undefined ? {} : { version }),
    licenses: licensesOf(library.license),
    ...(library.copyright.length === 0 ? {} : { copyright: library.copyright.join("\n") }),
    ...(library.cpe === undefined || version === undefined
      ? {}
      : { cpe: `cpe:2.3:a:${library.cpe}:${version}:*:*:*:*:*:*:*` })
  }
}

const npmComponent = (entry: LockedPackage, isBundled: boolean): Component => {
  const ref = purlOf(entry.name, entry.version)
  const scoped = /^(@[^/]+)\/(.+)$/.exec(entry.name)
  const native = nativeLibraries[entry.name]
  return {
    type: "library",
    "bom-ref": ref,
    ...(scoped === null ? {} : { group: scoped[1] }),
    name: scoped?.[2] ?? entry.name,
    version: entry.version,
    scope: entry.isOptional ? "optional" : "required",
    ...(entry.integrity?.startsWith("sha512-") === true
      ? {
          hashes: [
            {
              alg: "SHA-512",
              content: Buffer.from(entry.integrity.slice("sha512-".length), "base64").toString("hex")
            }
          ]
        }
      : {}),
    licenses: licensesOf(entry.license),
    purl: ref,
    ...(isBundled ? { properties: [{ name: "countersign:bundled", value: "true" }] } : {}),
    ...(native === undefined ? {} : { components: native.map((library) => nativeComponent(ref, library)) })
  }
}

/** A UUID of the document's content, so that equal documents have equal serial numbers (RFC 9562, version 8). */
const serialNumberOf = (content: string): string => {
  const hex = createHash("sha256").update(content).digest("hex")
  const variant = ((Number.parseInt(hex.slice(16, 17), 16) & 0x3) | 0x8).toString(16)
  const parts = [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `${variant}${hex.slice(17, 20)}`]
  return `urn:uuid:${parts.join("-")}-${hex.slice(20, 32)}`
}

/**
 * Makes the document. `bundled` has the places of the packages whose code is in `dist`, `system` the components of an image that no lockfile
 * of npm lists.
 */
export const makeBom = (
  published: PublishedPackages,
  bundled: ReadonlySet<string>,
  system: ReadonlyArray<Component> = []
): Bom => {
  const entries = publishedList(published).filter(
    ({ place }) => published.installed.has(place) || bundled.has(place)
  )
  const refs = new Map(entries.map(({ name, place, version }) => [place, purlOf(name, version)]))
  const refsOf = (places: ReadonlyArray<string>) =>
    [...new Set(places.map((place) => refs.get(place)).filter((ref) => ref !== undefined))].toSorted()
  const own = purlOf(published.name, published.version)
  const component: Component = {
    type: "application",
    "bom-ref": own,
    name: published.name,
    version: published.version,
    licenses: licensesOf(published.license),
    purl: own
  }
  const components = [...system, ...entries.map((entry) => npmComponent(entry, bundled.has(entry.place)))]
  const dependencies = [
    {
      ref: own,
      dependsOn: [...refsOf([...published.direct, ...bundled]), ...system.map((one) => one["bom-ref"])]
    },
    ...system.map((one) => ({ ref: one["bom-ref"], dependsOn: [] })),
    ...entries.map(({ name, needs, version }) => ({ ref: purlOf(name, version), dependsOn: refsOf(needs) }))
  ]
  return {
    $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    serialNumber: serialNumberOf(JSON.stringify([component, components, dependencies])),
    version: 1,
    metadata: { lifecycles: [{ phase: "build" }], component },
    components,
    dependencies
  }
}
