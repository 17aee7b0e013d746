/**
 * Runs a built image without a container engine, as tests and benchmarks need it: the layers unpacked by the system's tar, and the process
 * in mount and process namespaces of its own, as the first of them, with the image's account, on a read-only root file system.
 * It needs Linux and root.
 */
import { type ChildProcessByStdio, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs"
import path from "node:path"
import type { Readable } from "node:stream"
import { gunzipSync } from "node:zlib"
import { Schema } from "effect"
import { type Architecture, ownArchitecture } from "./sources.ts"

const Descriptor = Schema.Struct({
  mediaType: Schema.String,
  digest: Schema.String,
  size: Schema.Number,
  artifactType: Schema.optionalKey(Schema.String)
})
const Index = Schema.fromJsonString(Schema.Struct({ manifests: Schema.Array(Descriptor) }))
const Manifest = Schema.fromJsonString(
  Schema.Struct({ config: Descriptor, layers: Schema.Array(Descriptor) })
)
const Config = Schema.fromJsonString(
  Schema.Struct({
    config: Schema.Struct({
      User: Schema.String,
      Env: Schema.Array(Schema.String),
      Entrypoint: Schema.Array(Schema.String),
      Cmd: Schema.Array(Schema.String),
      Healthcheck: Schema.Struct({ Test: Schema.Array(Schema.String) })
    }),
    rootfs: Schema.Struct({ diff_ids: Schema.Array(Schema.String) })
  })
)

/** How a container of an unpacked image starts. */
export type ContainerConfig = (typeof Config.Type)["config"]

const blob = (layout: string, digest: string): Buffer =>
  readFileSync(path.join(layout, "blobs", digest.replace(":", "/")))

/** The configuration of the first image of a layout, and its layers. */
export const readImage = (layout: string) => {
  const { manifests } = Schema.decodeUnknownSync(Index)(readFileSync(path.join(layout, "index.json"), "utf8"))
  const [first] = manifests
  if (first === undefined) throw new Error(`${layout} has no image`)
  const { config, layers } = Schema.decodeUnknownSync(Manifest)(blob(layout, first.digest).toString())
  return { ...Schema.decodeUnknownSync(Config)(blob(layout, config.digest).toString()), layers, manifests }
}

/** Unpacks the layers of an image into a folder. Returns how a container of it starts. */
export const unpackImage = (layout: string, folder: string): ContainerConfig => {
  const { config, layers } = readImage(layout)
  mkdirSync(folder, { recursive: true })
  for (const { digest } of layers) {
    const { error, status, stderr } = spawnSync(
      "tar",
      ["--extract", "--numeric-owner", "--preserve-permissions", "--directory", folder],
      { input: gunzipSync(blob(layout, digest)), encoding: "utf8" }
    )
    if (status !== 0) throw new Error(`tar cannot unpack ${digest}: ${error?.message ?? stderr}`)
  }
  return config
}

/** The reason why this machine cannot run an image of an architecture; undefined if it can. */
export const cannotRun = (architecture: Architecture = ownArchitecture): string | undefined => {
  if (process.platform !== "linux") return "containers need Linux"
  if (process.getuid?.() !== 0) return "without a container engine, containers need root"
  const { status, stderr } = spawnSync(
    "unshare",
    ["--mount", "--pid", "--fork", "sh", "-c", "mount -t tmpfs none /mnt"],
    { encoding: "utf8" }
  )
  if (status !== 0) return `this machine allows no namespaces: ${(stderr ?? "unshare is missing").trim()}`
  return architecture === ownArchitecture || isEmulated(architecture)
    ? undefined
    : `the kernel has no emulator for ${architecture}: install qemu-user-static and binfmt-support`
}

const BINFMT = "/proc/sys/fs/binfmt_misc"

/** Where the number of the machine is in an ELF header, little-endian, and the numbers. */
const MACHINE_AT = 18
const machines: Readonly<Record<Architecture, string>> = { amd64: "3e00", arm64: "b700" }

/** Whether the kernel starts programs of an architecture by an emulator, which it also finds in a container (flag F). */
const isEmulated = (architecture: Architecture): boolean =>
  existsSync(BINFMT) &&
  readdirSync(BINFMT)
    .filter((name) => name !== "register" && name !== "status")
    .map((name) => readFileSync(path.join(BINFMT, name), "utf8"))
    .some(
      (text) =>
        text.startsWith("enabled\n") &&
        /^flags: .*F/m.test(text) &&
        /^magic ([0-9a-f]+)$/m.exec(text)?.[1]?.slice(MACHINE_AT * 2) === machines[architecture]
    )

/**
 * What a container runtime does: mounts, then the process as the image's account. A volume is the only directory on the disk that can be
 * written to.
 */
const START = `
root=$1 volume=$2 user=$3; shift 3
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for name in null zero random urandom; do touch "$root/dev/$name"; mount --bind "/dev/$name" "$root/dev/$name"; done
mkdir "$root/dev/shm"
if [ -n "$volume" ]; then
  mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
  mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
  mount --bind "$volume" "$root/var/lib/countersign"
fi
exec env -i "$@"
`

/** A running container. */
export interface Container {
  readonly child: ChildProcessByStdio<null, Readable, Readable>
  /** The first process of the container, as this machine numbers it; undefined before it has started. */
  readonly pid: () => number | undefined
  /** Standard output and standard error so far. */
  readonly output: () => string
  /** Kills all of its processes: the first one's end ends the namespace. */
  readonly kill: () => void
  /** The exit code. */
  readonly ended: Promise<number | null>
}

/** Its full path: the process is searched for in the image's PATH. */
const chroot = (): string =>
  spawnSync("sh", ["-c", "PATH=$PATH:/usr/sbin:/sbin; command -v chroot"], { encoding: "utf8" }).stdout.trim()

/** Starts a process in an unpacked image. `volume` is a folder for the image's volume, with directories in memory beside it. */
export const startContainer = (options: {
  readonly folder: string
  readonly config: ContainerConfig
  readonly env?: Readonly<Record<string, string>>
  readonly volume?: string
  /** In place of the image's command. */
  readonly args?: ReadonlyArray<string>
  /** In place of the image's entry point. */
  readonly entrypoint?: ReadonlyArray<string>
}): Container => {
  const { args, config, entrypoint, env = {}, folder, volume } = options
  if (volume !== undefined) {
    mkdirSync(volume, { recursive: true })
    const [owner = 0] = config.User.split(":").map(Number)
    chownSync(volume, owner, owner)
  }
  const child = spawn(
    "unshare",
    [
      ...["--mount", "--propagation", "private", "--pid", "--fork"],
      ...["sh", "-euc", START, "sh", folder, volume ?? "", config.User],
      ...config.Env,
      ...Object.entries(env).map(([name, value]) => `${name}=${value}`),
      ...[chroot(), `--userspec=${config.User}`, "--groups=", folder],
      ...(entrypoint ?? config.Entrypoint),
      ...(args ?? config.Cmd)
    ],
    { stdio: ["ignore", "pipe", "pipe"] }
  )
  const printed: Array<string> = []
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => printed.push(text))
  const pid = (): number | undefined => {
    const children = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8").trim()
    return children === "" ? undefined : Number(children)
  }
  const ended = once(child, "close").then(([code]: ReadonlyArray<unknown>) =>
    typeof code === "number" ? code : null
  )
  const kill = (): void => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const first = pid()
    if (first !== undefined) process.kill(first, "SIGKILL")
  }
  return { child, pid, output: () => printed.join(""), kill, ended }
}
