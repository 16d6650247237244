// Applies the stored theme before the first paint. Without one the system decides.
"use strict";
{
  let theme = null;
  try { theme = localStorage.getItem("wakeboard-theme"); } catch { /* storage may be blocked */ }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
}
