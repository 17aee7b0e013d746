/**
 * OCI images, written without a daemon: <https://github.com/opencontainers/image-spec>, version 1.1. The folder is an image layout; the
 * archive is the same in a tar file, which `docker load`, `podman load` and `skopeo` read.
 */
import { createHash } from "node:crypto"
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import path from "node:path"
import { gzipSync } from "node:zlib"
import { type FileEntry, type FileTree, file } from "./FileTree.ts"
import { keep, kept } from "./sources.ts"
import { writeTar } from "./tar.ts"

const MANIFEST = "application/vnd.oci.image.manifest.v1+json"
const INDEX = "application/vnd.oci.image.index.v1+json"
const CONFIG = "application/vnd.oci.image.config.v1+json"
const LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
const EMPTY = "application/vnd.oci.empty.v1+json"

/** The media type of a software bill of materials in CycloneDX. */
export const SBOM = "application/vnd.cyclonedx+json"

export interface Platform {
  readonly os: "linux"
  readonly architecture: string
}

/** A reference to a blob. */
export interface Descriptor {
  readonly mediaType: string
  readonly digest: string
  readonly size: number
  readonly platform?: Platform
  readonly artifactType?: string
  readonly annotations?: Readonly<Record<string, string>>
}

/** A compressed layer. */
export interface Layer {
  /** What made it, for `docker history`. */
  readonly createdBy: string
  readonly blob: Buffer
  readonly digest: string
  /** The digest of the uncompressed archive. */
  readonly diffId: string
  /** Of the files, in bytes. */
  readonly unpackedBytes: number
}

const digestOf = (bytes: Uint8Array): string => `sha256:${createHash("sha256").update(bytes).digest("hex")}`

/** Best compression of zlib, and the byte of the header that names the system set to unknown. */
const compress = (bytes: Buffer): Buffer => {
  const compressed = gzipSync(bytes, { level: 9 })
  compressed[9] = 0xff
  return compressed
}

/** Makes a layer. Compressing Node.js takes ten seconds, so compressed layers are kept. */
export const makeLayer = (createdBy: string, tree: FileTree): Layer => {
  const archive = writeTar(tree)
  const diffId = digestOf(archive)
  const name = path.join("layers", `${diffId.slice("sha256:".length)}.tar.gz`)
  let blob = kept(name)
  if (blob === undefined) {
    blob = compress(archive)
    keep(name, blob)
  }
  const sizes = [...tree.values()].map((entry) => (entry.kind === "file" ? entry.content.length : 0))
  return {
    createdBy,
    blob,
    digest: digestOf(blob),
    diffId,
    unpackedBytes: sizes.reduce((total, size) => total + size, 0)
  }
}

/** How a container of the image runs; the member `config` of OCI's configuration, with Docker's health check. */
export interface RunConfig {
  readonly User: string
  readonly ExposedPorts: Readonly<Record<string, object>>
  readonly Env: ReadonlyArray<string>
  readonly Entrypoint: ReadonlyArray<string>
  readonly Cmd: ReadonlyArray<string>
  readonly Volumes?: Readonly<Record<string, object>>
  readonly WorkingDir: string
  readonly Labels: Readonly<Record<string, string>>
  readonly StopSignal: string
  /** Not in OCI's specification: Docker and Podman read it, durations in nanoseconds. */
  readonly Healthcheck: {
    readonly Test: ReadonlyArray<string>
    readonly Interval: number
    readonly Timeout: number
    readonly StartPeriod: number
    readonly Retries: number
  }
}

/** An image of one architecture. */
export interface Image {
  readonly architecture: string
  /** RFC 3339. */
  readonly created: string
  readonly config: RunConfig
  readonly layers: ReadonlyArray<Layer>
  /** The software bill of materials, attached to the image. */
  readonly sbom: Buffer
}

/** The blobs of images, and their index. */
class Blobs {
  readonly files = new Map<string, FileEntry>()
  readonly add = (
    mediaType: string,
    bytes: Buffer,
    rest: Partial<Omit<Descriptor, "mediaType" | "digest" | "size">> = {}
  ): Descriptor => {
    const digest = digestOf(bytes)
    this.files.set(`blobs/${digest.replace(":", "/")}`, file(bytes))
    return { mediaType, digest, size: bytes.length, ...rest }
  }
  readonly addJson: (
    mediaType: string,
    value: object,
    rest?: Partial<Omit<Descriptor, "mediaType" | "digest" | "size">>
  ) => Descriptor = (mediaType, value, rest) => this.add(mediaType, Buffer.from(JSON.stringify(value)), rest)
}

interface AddedImage {
  readonly manifest: Descriptor
  readonly config: Descriptor
  readonly layers: ReadonlyArray<Descriptor>
  readonly attached: Descriptor
}

const addImage = (blobs: Blobs, image: Image): AddedImage => {
  const { architecture, config: run, created, layers, sbom } = image
  const config = blobs.addJson(CONFIG, {
    created,
    architecture,
    os: "linux",
    config: run,
    rootfs: { type: "layers", diff_ids: layers.map(({ diffId }) => diffId) },
    history: layers.map(({ createdBy }) => ({ created, created_by: createdBy }))
  })
  const added = layers.map(({ blob }) => blobs.add(LAYER, blob))
  const platform: Platform = { os: "linux", architecture }
  const manifest = blobs.addJson(
    MANIFEST,
    { schemaVersion: 2, mediaType: MANIFEST, config, layers: added, annotations: run.Labels },
    { platform }
  )
  const { platform: _, ...subject } = manifest
  const attached = blobs.addJson(
    MANIFEST,
    {
      schemaVersion: 2,
      mediaType: MANIFEST,
      artifactType: SBOM,
      config: blobs.add(EMPTY, Buffer.from("{}")),
      layers: [blobs.add(SBOM, sbom, { annotations: { "org.opencontainers.image.title": "sbom.cdx.json" } })],
      subject,
      annotations: { "org.opencontainers.image.created": created }
    },
    { artifactType: SBOM }
  )
  return { manifest, config, layers: added, attached }
}

const pathOf = ({ digest }: Descriptor): string => `blobs/${digest.replace(":", "/")}`

/** A layout's files, and the digest by which a registry would name the image. */
export interface Layout {
  readonly files: FileTree
  /** The files of the archive: without the attached documents, because programs that read one take every manifest for an image. */
  readonly archived: FileTree
  readonly digest: string
}

/** Makes the layout of an image for one or more architectures. `name` is that of the archive, such as `countersign:1.0.0-slim`. */
export const makeLayout = (name: string, images: ReadonlyArray<Image>): Layout => {
  const blobs = new Blobs()
  const added = images.map((image) => addImage(blobs, image))
  const manifests = added.map(({ manifest }) => manifest)
  const [first] = added
  if (first === undefined) throw new Error("an image needs an architecture")
  const annotations = {
    "io.containerd.image.name": `docker.io/library/${name}`,
    "org.opencontainers.image.ref.name": name.slice(name.indexOf(":") + 1)
  }
  const isSingle = added.length === 1
  const main: Descriptor = isSingle
    ? { ...first.manifest, annotations }
    : blobs.addJson(INDEX, { schemaVersion: 2, mediaType: INDEX, manifests }, { annotations })
  const attached = added.map(({ attached: one }) => one)
  const json = (value: unknown) => file(JSON.stringify(value))
  const layoutOf = (listed: ReadonlyArray<Descriptor>, docker: boolean): FileTree => {
    const files = new Map(blobs.files)
    files.set("oci-layout", json({ imageLayoutVersion: "1.0.0" }))
    files.set("index.json", json({ schemaVersion: 2, mediaType: INDEX, manifests: listed }))
    // What `docker load` reads in versions that do not know OCI's layout.
    if (docker)
      files.set(
        "manifest.json",
        json([{ Config: pathOf(first.config), RepoTags: [name], Layers: first.layers.map(pathOf) }])
      )
    return files
  }
  return {
    files: layoutOf([main, ...attached], false),
    archived: layoutOf([main], isSingle),
    digest: main.digest
  }
}

/** Writes a layout into a folder, which it replaces. */
export const writeLayout = (folder: string, { files }: Layout): void => {
  rmSync(folder, { recursive: true, force: true })
  for (const [name, entry] of files) {
    if (entry.kind !== "file") continue
    const place = path.join(folder, name)
    mkdirSync(path.dirname(place), { recursive: true })
    writeFileSync(place, entry.content)
  }
}

/** Writes a layout as an archive. */
export const writeArchive = (place: string, { archived }: Layout): void => {
  mkdirSync(path.dirname(place), { recursive: true })
  writeFileSync(place, writeTar(archived))
}
