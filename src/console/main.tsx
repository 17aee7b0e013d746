import { StrictMode } from "react"
import { createRoot } from "react-dom/client"
import { Start } from "./app/Start.tsx"
import { takePageToken } from "./state/pageToken.ts"

takePageToken()

const root = document.getElementById("root")
if (root !== null) {
  createRoot(root).render(
    <StrictMode>
      <Start />
    </StrictMode>
  )
}
