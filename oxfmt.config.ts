import { defineConfig } from "oxfmt"

/** How every file is formatted; files that Git ignores are left alone. */
export default defineConfig({
  printWidth: 110,
  semi: false,
  trailingComma: "none",
  sortPackageJson: false,
  // Written by programs, or for those that read them byte for byte.
  ignorePatterns: [
    "package-lock.json",
    "openapi.json",
    "*.sql",
    "test/scripts/deploy/kubernetes/*.json",
    "scripts/deploy/helm/countersign/templates"
  ]
})
