/** Vite's configuration for the console. `scripts/setup.js` builds it in a checkout, `scripts/build.ts` for the package. */
import react from "@vitejs/plugin-react"
import { readFile, writeFile } from "node:fs/promises"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { brotliCompress, constants } from "node:zlib"
import { defineConfig, type Plugin, Visitor } from "vite"

const brotli = promisify(brotliCompress)

// Every build, also in tests, is a production build, as published: React's development build is three times as large.
process.env["NODE_ENV"] = "production"

const root = fileURLToPath(new URL("..", import.meta.url))

/** The modules whose chunks a signed-in browser needs first: the app, and the page where most visits start. */
const STARTS = ["app/App.tsx", "pages/overview/Overview.tsx"]

/**
 * Writes `signed-in.html` beside `index.html`. It preloads the chunks of the app concurrently with the entry chunk, instead of after it; the
 * page without a session loads only the sign-in form.
 */
const preloadApp: Plugin = {
  name: "countersign:preload-app",
  enforce: "post",
  generateBundle(_options, bundle) {
    const chunks = Object.values(bundle).filter((file) => file.type === "chunk")
    const entry = chunks.find((chunk) => chunk.isEntry)
    const html = bundle["index.html"]
    if (html?.type !== "asset") throw new Error("The console has no page")
    const names = new Set<string>()
    const add = (name: string) => {
      const file = bundle[name]
      // Vite already preloads the imports of the entry chunk.
      if (file?.type !== "chunk" || file === entry || names.has(name)) return
      if (entry?.imports.includes(name) === true) return
      names.add(name)
      file.imports.forEach(add)
    }
    for (const start of STARTS) {
      const chunk = chunks.find(({ facadeModuleId }) => facadeModuleId?.endsWith(start))
      if (chunk === undefined) throw new Error(`${start} has no chunk of its own`)
      add(chunk.fileName)
    }
    const links = [...names].map(
      (name) => `    <link rel="modulepreload" crossorigin href="/console/${name}">\n`
    )
    this.emitFile({
      type: "asset",
      fileName: "signed-in.html",
      source: String(html.source).replace("  </head>", `${links.join("")}  </head>`)
    })
  }
}

/** The icons of the installed app. `maskable`: the system may cut it to its shape. `scripts/consoleIcons.ts` draws them from the logo. */
const ICONS = [
  { file: "icon-192.png", sizes: "192x192", purpose: "any" },
  { file: "icon-512.png", sizes: "512x512", purpose: "any" },
  { file: "icon-maskable-512.png", sizes: "512x512", purpose: "maskable" }
]

/** Phones of Apple take the icon from a link of the page. */
const APPLE_ICON = "icon-apple-180.png"

/** Writes the web manifest, with which browsers install the console as an app, and links it in the pages. */
const webManifest: Plugin = {
  name: "countersign:web-manifest",
  enforce: "post",
  async generateBundle(_options, bundle) {
    const emit = async (file: string) => {
      const source = await readFile(path.join(root, "src", "console", "icons", file))
      return `/console/${this.getFileName(this.emitFile({ type: "asset", name: file, source }))}`
    }
    const icons = await Promise.all(
      ICONS.map(async ({ file, ...icon }) => ({ src: await emit(file), type: "image/png", ...icon }))
    )
    this.emitFile({
      type: "asset",
      fileName: "manifest.webmanifest",
      source: JSON.stringify({
        id: "/console",
        name: "Countersign",
        short_name: "Countersign",
        description: "Decide what agents may do.",
        start_url: "/console",
        scope: "/console",
        display: "standalone",
        background_color: "#f6f6f4",
        theme_color: "#2f4a9e",
        icons
      })
    })
    const links =
      `    <link rel="manifest" href="/console/manifest.webmanifest">\n` +
      `    <link rel="apple-touch-icon" href="${await emit(APPLE_ICON)}">\n`
    for (const name of ["index.html", "signed-in.html"]) {
      const html = bundle[name]
      if (html?.type !== "asset") throw new Error(`The console has no ${name}`)
      html.source = String(html.source).replace("  </head>", `${links}  </head>`)
    }
  }
}

/** The calls that annotate a schema or an endpoint. */
const ANNOTATE = /^(?:annotate|annotateKey|annotations)$/

/**
 * Empties the descriptions of the API's schemas and operations, a tenth of the app's script: only the OpenAPI document shows them, which
 * the service writes.
 */
const dropDescriptions: Plugin = {
  name: "countersign:drop-descriptions",
  transform: {
    filter: { id: /\/src\/(?:api|domain)\// },
    handler(code) {
      const texts: Array<{ readonly start: number; readonly end: number }> = []
      new Visitor({
        CallExpression({ arguments: [options], callee }) {
          if (callee.type !== "MemberExpression" || callee.property.type !== "Identifier") return
          if (!ANNOTATE.test(callee.property.name) || options?.type !== "ObjectExpression") return
          for (const property of options.properties) {
            if (property.type !== "Property" || property.key.type !== "Identifier") continue
            if (/^(?:description|summary)$/.test(property.key.name)) texts.push(property)
          }
        }
      }).visit(this.parse(code))
      texts.sort((one, other) => one.start - other.start)
      const parts = texts.map(({ start }, index) => code.slice(texts[index - 1]?.end ?? 0, start))
      return [...parts, code.slice(texts.at(-1)?.end ?? 0)].join('description: ""')
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
  plugins: [react(), dropDescriptions, preloadApp, webManifest, compressFiles],
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
          groups: [
            // What the sign-in page needs, without Effect.
            {
              name: "start",
              test: /node_modules\/(?:react|react-dom|scheduler)\/|src\/console\/(?:app\/(?:Start|SignIn|NoResponse|Logo|sessionRequests)|ui\/(?:Button|Field|FailureNotice|problemFailure|UntrustedText))\.|api\/console\/consolePath/,
              priority: 2
            },
            {
              name: "parts",
              test: /src\/console\/ui\/(?!Dialog|Confirm|Secret|charts|batch|code|firstRecord\/|schemaForm)/,
              priority: 1
            }
          ]
        }
      }
    },
    chunkSizeWarningLimit: 700,
    reportCompressedSize: false
  }
})
