/** How Vite builds the console's page: `scripts/setup.js` in a checkout, `scripts/build.ts` for the package. */
import react from "@vitejs/plugin-react"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { defineConfig } from "vite"

// Whoever builds, a test too, gets what is published: React's own development build is three times as large.
process.env["NODE_ENV"] = "production"

const root = fileURLToPath(new URL("..", import.meta.url))

export default defineConfig({
  root: path.join(root, "src", "console"),
  base: "/console/",
  plugins: [react()],
  cacheDir: path.join(root, "node_modules", ".cache", "vite"),
  build: {
    emptyOutDir: true,
    target: "es2023",
    // The page's policy lets no image or font come from the page itself.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // React and Effect are one chunk, which every page needs: 165 KB as it is sent.
    chunkSizeWarningLimit: 700,
    reportCompressedSize: false
  }
})
