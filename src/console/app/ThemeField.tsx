import { useAtomValue } from "../state/atoms.ts"
import { setTheme, Theme, themeAtom } from "../state/theme.ts"

const labels: Record<Theme, string> = { system: "System", light: "Light", dark: "Dark" }

/** Chooses light or dark colours. */
export const ThemeField = () => (
  <label className="theme">
    Theme
    <select
      value={useAtomValue(themeAtom)}
      onChange={({ target }) => {
        const chosen = Theme.literals.find((theme) => theme === target.value)
        if (chosen !== undefined) setTheme(chosen)
      }}
    >
      {Theme.literals.map((theme) => (
        <option key={theme} value={theme}>
          {labels[theme]}
        </option>
      ))}
    </select>
  </label>
)
