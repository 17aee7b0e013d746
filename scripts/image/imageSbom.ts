import { publishedList, readPublishedPackages } from "../package/lockedPackages.ts"
import { type Component, makeBom } from "../package/sbom.ts"
import { type Architecture, type DebianPackage, nodePackage, readDebianLock } from "./sources.ts"
import type { Variant } from "./variants.ts"

const debianComponent = (
  { name, sha256, version }: DebianPackage,
  architecture: Architecture,
  release: string
): Component => {
  const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=${architecture}&distro=${release}`
  return {
    type: "library",
    "bom-ref": purl,
    name,
    version,
    scope: "required",
    hashes: [{ alg: "SHA-256", content: sha256 }],
    purl
  }
}

const nodeComponent = (architecture: Architecture): Component => {
  const { integrity, version } = nodePackage(architecture)
  const purl = `pkg:generic/node@${version}`
  return {
    type: "application",
    "bom-ref": purl,
    name: "node",
    version,
    scope: "required",
    hashes: [
      { alg: "SHA-512", content: Buffer.from(integrity.slice("sha512-".length), "base64").toString("hex") }
    ],
    licenses: [{ license: { id: "MIT" } }],
    cpe: `cpe:2.3:a:nodejs:node.js:${version}:*:*:*:-:*:*:*`,
    purl
  }
}

/**
 * The software bill of materials of an image in CycloneDX: Debian's packages, Node.js, and the npm packages in the service. `bundled` has
 * the places of the latter in the lockfile.
 */
export const imageSbom = (
  variant: Variant,
  architecture: Architecture,
  bundled: ReadonlySet<string>
): Buffer => {
  const published = readPublishedPackages()
  const { packages, release } = readDebianLock()
  const { postgres, system } = packages[architecture]
  const debian = variant === "full" ? [...system, ...postgres] : system
  const bom = makeBom(
    {
      ...published,
      // npm installs nothing in an image.
      installed: new Map(),
      bundledOnly: new Map(publishedList(published).map((one) => [one.place, one])),
      direct: []
    },
    bundled,
    [nodeComponent(architecture), ...debian.map((one) => debianComponent(one, architecture, release))]
  )
  return Buffer.from(`${JSON.stringify(bom, undefined, 2)}\n`)
}
