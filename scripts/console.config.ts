/** Vite's configuration for the console. `scripts/setup.js` builds it in a checkout, `scripts/build.ts` for the package. */
import react from "@vitejs/plugin-react"
import { readFile, writeFile } from "node:fs/promises"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { brotliCompress, constants } from "node:zlib"
import { defineConfig, type Plugin } from "vite"

const brotli = promisify(brotliCompress)

// Every build, also in tests, is a production build, as published: React's development build is three times as large.
process.env["NODE_ENV"] = "production"

const root = fileURLToPath(new URL("..", import.meta.url))

/** Preloads the chunks of the start page, concurrently with the entry chunk instead of after it. */
const preloadStartPage: Plugin = {
  name: "countersign:preload-start-page",
  transformIndexHtml: {
    order: "post",
    handler: (_html, { bundle = {}, chunk: entry }) => {
      const names = new Set<string>()
      const add = (name: string) => {
        const file = bundle[name]
        // Vite already preloads the imports of the entry chunk.
        if (file?.type !== "chunk" || file === entry || names.has(name)) return
        if (entry?.imports.includes(name) === true) return
        names.add(name)
        file.imports.forEach(add)
      }
      const start = Object.values(bundle).find(
        (file) => file.type === "chunk" && file.facadeModuleId?.endsWith("pages/overview/Overview.tsx")
      )
      if (start === undefined) throw new Error("The console's start page has no chunk of its own")
      add(start.fileName)
      return [...names].map((name) => ({
        tag: "link",
        attrs: { rel: "modulepreload", crossorigin: true, href: `/console/${name}` },
        injectTo: "head"
      }))
    }
  }
}

/** Writes each file that compresses well also as `.br`, which the service sends to browsers. */
const compressFiles: Plugin = {
  name: "countersign:compress-files",
  writeBundle: async ({ dir = "" }, bundle) => {
    const params = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY }
    await Promise.all(
      Object.keys(bundle)
        .filter((name) => /\.(?:js|css|html|svg|json)$/.test(name))
        .map(async (name) => {
          const file = path.join(dir, name)
          await writeFile(`${file}.br`, await brotli(await readFile(file), { params }))
        })
    )
  }
}

export default defineConfig({
  root: path.join(root, "src", "console"),
  base: "/console/",
  plugins: [react(), preloadStartPage, compressFiles],
  cacheDir: path.join(root, "node_modules", ".cache", "vite"),
  build: {
    emptyOutDir: true,
    target: "es2023",
    // The Content Security Policy blocks inline fonts and styles.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      output: {
        // One chunk for the shared UI components instead of one per component. Charts are loaded by the pages that show them.
        codeSplitting: {
          groups: [{ name: "parts", test: /src\/console\/ui\/(?!Dialog|Confirm|Secret|charts)/ }]
        }
      }
    },
    // React and Effect are one chunk that every page needs: 165 KB compressed.
    chunkSizeWarningLimit: 700,
    reportCompressedSize: false
  }
})
