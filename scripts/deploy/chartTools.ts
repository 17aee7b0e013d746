import { spawnSync } from "node:child_process"
import path from "node:path"
import { fileURLToPath } from "node:url"

export const root = fileURLToPath(new URL("../..", import.meta.url))

/** Where `npm run chart` installs Helm, kubeconform and promtool. */
export const chartTools = path.join(root, "node_modules", ".cache", "chart", "bin")

const versionOptions = { helm: "version", kubeconform: "-v", promtool: "--version" } as const

/** The program of this name, installed by `npm run chart` or on this machine; undefined if there is none. */
export const findTool = (name: keyof typeof versionOptions): string | undefined =>
  [path.join(chartTools, name), name].find(
    (program) => spawnSync(program, [versionOptions[name]], { stdio: "ignore" }).status === 0
  )
