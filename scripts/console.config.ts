/** How Vite builds the console's page: `scripts/setup.js` in a checkout, `scripts/build.ts` for the package. */
import react from "@vitejs/plugin-react"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { defineConfig, type Plugin } from "vite"

// Whoever builds, a test too, gets what is published: React's own development build is three times as large.
process.env["NODE_ENV"] = "production"

const root = fileURLToPath(new URL("..", import.meta.url))

/** The page that most visits begin with is fetched beside the program, and not when that has come to ask for it. */
const fetchStartEarly: Plugin = {
  name: "countersign:fetch-start-early",
  transformIndexHtml: {
    order: "post",
    handler: (_html, { bundle = {}, chunk: program }) => {
      const names = new Set<string>()
      const add = (name: string) => {
        const file = bundle[name]
        // What the program itself imports is named beside it already.
        if (file?.type !== "chunk" || file === program || names.has(name)) return
        if (program?.imports.includes(name) === true) return
        names.add(name)
        file.imports.forEach(add)
      }
      const start = Object.values(bundle).find(
        (file) => file.type === "chunk" && file.facadeModuleId?.endsWith("pages/approvals/Inbox.tsx")
      )
      if (start === undefined) throw new Error("the console's first page has no chunk of its own")
      add(start.fileName)
      return [...names].map((name) => ({
        tag: "link",
        attrs: { rel: "modulepreload", crossorigin: true, href: `/console/${name}` },
        injectTo: "head"
      }))
    }
  }
}

export default defineConfig({
  root: path.join(root, "src", "console"),
  base: "/console/",
  plugins: [react(), fetchStartEarly],
  cacheDir: path.join(root, "node_modules", ".cache", "vite"),
  build: {
    emptyOutDir: true,
    target: "es2023",
    // The page's policy lets no image or font come from the page itself.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      output: {
        // What most pages are made of is one file, and not one a button.
        codeSplitting: {
          groups: [{ name: "parts", test: /src\/console\/ui\/(?!Dialog|Confirm|Secret)/ }]
        }
      }
    },
    // React and Effect are one chunk, which every page needs: 165 KB as it is sent.
    chunkSizeWarningLimit: 700,
    reportCompressedSize: false
  }
})
