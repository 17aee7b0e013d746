import type { Metafile } from "esbuild"
import path from "node:path"
import { build } from "vite"
import { root } from "./lockedPackages.ts"

/** Builds the console into a folder. Returns the modules of which it has something. */
export const buildConsole = async (outDir: string): Promise<ReadonlySet<string>> => {
  const modules = new Set<string>()
  await build({
    plugins: [
      {
        name: "countersign:modules",
        generateBundle: (_options, bundle) => {
          for (const chunk of Object.values(bundle))
            if (chunk.type === "chunk")
              for (const [id, { renderedLength }] of Object.entries(chunk.modules))
                if (renderedLength > 0) modules.add(id)
        }
      }
    ],
    configFile: path.join(root, "scripts", "console.config.ts"),
    logLevel: "warn",
    build: { outDir }
  })
  return modules
}

/** The modules of which a build of esbuild has something. */
export const keptModules = ({ outputs }: Metafile): ReadonlyArray<string> =>
  Object.values(outputs).flatMap(({ inputs }) =>
    Object.entries(inputs).flatMap(([file, { bytesInOutput }]) => (bytesInOutput > 0 ? [file] : []))
  )
