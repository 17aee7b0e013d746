/**
 * Builds the container images, without a container engine: `slim`, which needs a PostgreSQL at DATABASE_URL, and `full`, which runs one
 * itself. Equal sources give equal digests.
 *
 *     npm run image                               both variants for this architecture, as OCI layouts in dist/image
 *     npm run image -- slim                       one variant
 *     npm run image -- --arch amd64,arm64         for several architectures
 *     npm run image -- --archive                  also dist/image/VARIANT.tar for docker load, podman load and skopeo
 *     npm run image -- --layers DIR               only the files of the layers, unpacked, for scripts/deploy/Dockerfile
 *     npm run image -- --rebuild                  builds the service also if its sources have not changed
 *     npm run image -- --update-packages          chooses the current versions of Debian's packages, with apt
 *
 * It needs a network once and the program xz. `SOURCE_DATE_EPOCH` sets the images' time, by default that of the commit.
 */
import { spawnSync } from "node:child_process"
import { chownSync, chmodSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import path from "node:path"
import { VERSION } from "../src/domain/Version.ts"
import { file, type FileTree, withParents } from "./image/FileTree.ts"
import { imageSbom } from "./image/imageSbom.ts"
import { type App, appLayer, nodeLayer, postgresLayer, systemLayer } from "./image/layers.ts"
import { type Image, type Layer, makeLayer, makeLayout, writeArchive, writeLayout } from "./image/oci.ts"
import { type Architecture, architectures, ownArchitecture, root, SourceMissing } from "./image/sources.ts"
import { updatePackages } from "./image/updatePackages.ts"
import { DATA_DIR, runConfig, type Variant, variants } from "./image/variants.ts"
import { failUsage, parseOptions } from "./parseOptions.ts"

const script = import.meta.filename

const { positionals, values } = parseOptions(script, {
  allowPositionals: true,
  options: {
    arch: { type: "string" },
    archive: { type: "boolean", default: false },
    layers: { type: "string" },
    rebuild: { type: "boolean", default: false },
    output: { type: "string", default: path.join(root, "dist", "image") },
    "update-packages": { type: "boolean", default: false }
  }
})

const git = (...args: ReadonlyArray<string>): string | undefined => {
  const { status, stdout } = spawnSync("git", args, { cwd: root, encoding: "utf8" })
  return status === 0 ? stdout.trim() : undefined
}

/** The members of a list that are known; others are a mistake of the caller. */
const choose = <const A extends string>(known: ReadonlyArray<A>, given: ReadonlyArray<string>) => {
  const unknown = given.find((name) => !known.some((one) => one === name))
  if (unknown !== undefined) failUsage(script, `${unknown} is none of ${known.join(", ")}`)
  return known.filter((one) => given.includes(one))
}

const chosenVariants = choose(variants, positionals.length === 0 ? variants : positionals)
const chosenArchitectures = choose(architectures, values.arch?.split(",") ?? [ownArchitecture])

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`.padStart(10)

/** Writes the files of a layer into a folder. Owners are set if this account may. */
const unpack = (folder: string, tree: FileTree): void => {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  for (const [name, entry] of withParents(tree)) {
    const place = path.join(folder, name)
    if (entry.kind === "symlink") symlinkSync(entry.target, place)
    else {
      if (entry.kind === "directory") mkdirSync(place)
      else writeFileSync(place, entry.content)
      if (process.getuid?.() === 0) chownSync(place, entry.owner ?? 0, entry.owner ?? 0)
      // After the owner, whose change removes bits, and whatever the umask.
      chmodSync(place, entry.mode)
    }
  }
}

/** Where the image has its software bill of materials. */
const SBOM_FILE = "usr/share/doc/countersign/sbom.cdx.json"

let built: Promise<App> | undefined

const layersOf = async (variant: Variant, architecture: Architecture) => {
  const app = await (built ??= appLayer(values.rebuild))
  const sbom = imageSbom(variant, architecture, app.bundled)
  const trees: ReadonlyArray<readonly [name: string, createdBy: string, tree: FileTree]> = [
    ["system", "packages of Debian: libraries and certificates", await systemLayer(architecture)],
    ["node", "Node.js", nodeLayer(architecture)],
    ...(variant === "full"
      ? ([["postgres", "packages of Debian: PostgreSQL", await postgresLayer(architecture)]] as const)
      : []),
    ["app", `Countersign ${VERSION}`, app.files],
    ["sbom", "software bill of materials", new Map([[SBOM_FILE, file(sbom)]])]
  ]
  return { sbom, trees }
}

const imageOf = async (
  variant: Variant,
  architecture: Architecture,
  created: string,
  revision: string | undefined
): Promise<Image> => {
  const { sbom, trees } = await layersOf(variant, architecture)
  const layers = trees.map(([, createdBy, tree]) => makeLayer(createdBy, tree))
  return { architecture, created, config: runConfig(variant, { created, revision }), layers, sbom }
}

const printSizes = (layers: ReadonlyArray<Layer>): void => {
  const sum = (size: (layer: Layer) => number) => layers.reduce((total, layer) => total + size(layer), 0)
  for (const layer of layers)
    console.log(
      `  ${megabytes(layer.blob.length)} compressed ${megabytes(layer.unpackedBytes)} unpacked  ${layer.createdBy}`
    )
  console.log(
    `  ${megabytes(sum(({ blob }) => blob.length))} compressed ${megabytes(sum(({ unpackedBytes }) => unpackedBytes))} unpacked  in all`
  )
}

const buildImages = async (): Promise<void> => {
  const seconds = Number(process.env["SOURCE_DATE_EPOCH"] ?? git("log", "-1", "--format=%ct") ?? 0)
  if (!Number.isSafeInteger(seconds) || seconds < 0)
    failUsage(script, "SOURCE_DATE_EPOCH is no number of seconds")
  const created = new Date(seconds * 1_000).toISOString().replace(/\.\d+/, "")
  const revision = git("rev-parse", "HEAD")
  for (const variant of chosenVariants) {
    const images: Array<Image> = []
    for (const architecture of chosenArchitectures) {
      images.push(await imageOf(variant, architecture, created, revision))
    }
    const layout = makeLayout(`countersign:${VERSION}-${variant}`, images)
    const folder = path.join(values.output, variant)
    writeLayout(folder, layout)
    if (values.archive) writeArchive(`${folder}.tar`, layout)
    console.log(`${variant}  ${layout.digest}  ${path.relative(process.cwd(), folder)}`)
    for (const { architecture, layers } of images) {
      console.log(`  linux/${architecture}`)
      printSizes(layers)
    }
  }
}

const unpackLayers = async (folder: string): Promise<void> => {
  const [architecture = ownArchitecture] = chosenArchitectures
  for (const variant of chosenVariants) {
    const { trees } = await layersOf(variant, architecture)
    for (const [name, , tree] of trees) {
      // Docker gives what it copies to root: the Dockerfile names the owner of the data directory, whose folder is apart.
      const files = new Map([...tree].filter(([place]) => place !== DATA_DIR.slice(1)))
      unpack(path.join(folder, name === "sbom" ? `sbom-${variant}` : name), files)
    }
    if (variant === "full") unpack(path.join(folder, "data"), new Map())
  }
}

try {
  if (values["update-packages"]) updatePackages(new Date())
  else if (values.layers === undefined) await buildImages()
  else await unpackLayers(values.layers)
} catch (error) {
  if (!(error instanceof SourceMissing)) throw error
  console.error(`image: ${error.message}`)
  process.exitCode = 1
}
