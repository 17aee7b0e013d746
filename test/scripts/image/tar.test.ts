import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { spawnSync } from "node:child_process"
import { lstatSync, mkdirSync, mkdtempSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import {
  directory,
  executable,
  type FileEntry,
  file,
  symlink,
  withParents
} from "../../../scripts/image/FileTree.ts"
import { readTar, writeTar } from "../../../scripts/image/tar.ts"

const name = fc.stringMatching(/^[a-zA-Z0-9é_-]{1,60}$/)
const entry: fc.Arbitrary<FileEntry> = fc.oneof(
  fc
    .record({ content: fc.uint8Array({ maxLength: 1_100 }), runs: fc.boolean() })
    .map(({ content, runs }) => (runs ? executable(content) : file(content))),
  fc.string({ minLength: 1, maxLength: 200, unit: "grapheme-ascii" }).map(symlink),
  fc.constantFrom(0, 65_532).map((owner) => directory(0o700, owner))
)
/** Files at most four directories deep, with names that do not fit into the plain format. */
const tree = fc
  .array(fc.tuple(fc.array(name, { minLength: 1, maxLength: 4 }), entry), { maxLength: 12 })
  .map(
    (entries) =>
      new Map(entries.map(([parts, one], index) => [[...parts, `f${index}`].join("/"), one] as const))
  )

describe("tar archives of images", () => {
  it("have every file as it was, with the directories that contain it", () => {
    const plain = (one: FileEntry) => ({
      ...one,
      owner: one.owner ?? 0,
      ...(one.kind === "file" ? { content: Buffer.from(one.content).toString("hex") } : {})
    })
    fc.assert(
      fc.property(tree, (files) => {
        const read = readTar(writeTar(files))
        assert.deepStrictEqual(
          [...read].map(([at, one]) => [at, plain(one)]),
          [...withParents(files)].map(([at, one]) => [at, plain(one)])
        )
      })
    )
  })

  it("are equal for equal files, whatever their order", () => {
    fc.assert(
      fc.property(tree, (files) => {
        assert.isTrue(writeTar(new Map([...files].toReversed())).equals(writeTar(files)))
      })
    )
  })

  const folder = () => mkdtempSync(path.join(tmpdir(), "countersign-tar-"))

  it("are read by the system's tar", () => {
    const long = `${"d".repeat(90)}/${"e".repeat(90)}/file`
    const files = new Map<string, FileEntry>([
      ["bin/program", executable(Buffer.from("#!"))],
      [long, file("long")],
      ["link", symlink(`../${"t".repeat(150)}`)],
      ["tmp", directory(0o1777)]
    ])
    const at = folder()
    try {
      const args = ["--extract", "--preserve-permissions", "--directory", at]
      const { status, stderr } = spawnSync("tar", args, { input: writeTar(files), encoding: "utf8" })
      assert.strictEqual(stderr, "")
      assert.strictEqual(status, 0)
      assert.strictEqual(readFileSync(path.join(at, long), "utf8"), "long")
      assert.strictEqual(readlinkSync(path.join(at, "link")), `../${"t".repeat(150)}`)
      assert.strictEqual(lstatSync(path.join(at, "bin", "program")).mode & 0o7777, 0o755)
      assert.strictEqual(lstatSync(path.join(at, "tmp")).mode & 0o7777, 0o1777)
      assert.strictEqual(lstatSync(path.join(at, long)).mtimeMs, 0)
    } finally {
      rmSync(at, { recursive: true })
    }
  })

  it.each(["gnu", "pax", "ustar"])(
    "of the system's tar are read in the format %s, with hard links",
    (format) => {
      const at = folder()
      const long = path.join("d".repeat(80), "e".repeat(format === "ustar" ? 60 : 180))
      try {
        mkdirSync(path.join(at, path.dirname(long)))
        writeFileSync(path.join(at, long), "content")
        writeFileSync(path.join(at, "aa"), "content")
        // ustar has no targets of more than 100 bytes.
        const target = format === "ustar" ? "aa" : long
        const script = `ln ${target} zz && ln -s ${target} sym && tar --create --format=${format} --sort=name .`
        const { status, stdout } = spawnSync("sh", ["-c", script], { cwd: at })
        assert.strictEqual(status, 0)
        const read = readTar(stdout)
        for (const name of [long, "zz"]) {
          const found = read.get(name)
          assert.strictEqual(
            found?.kind === "file" ? Buffer.from(found.content).toString() : undefined,
            "content",
            name
          )
        }
        const link = read.get("sym")
        assert.strictEqual(link?.kind === "symlink" ? link.target : undefined, target)
      } finally {
        rmSync(at, { recursive: true })
      }
    }
  )

  it("that are cut off, or have an entry of an unknown type, are refused", () => {
    const archive = writeTar(new Map([["a", file("x".repeat(600))]]))
    assert.throws(() => readTar(archive.subarray(0, 700)), /truncated/)
    const device = Buffer.from(archive)
    device[156] = "3".charCodeAt(0)
    assert.throws(() => readTar(device), /unknown type "3"/)
  })
})
