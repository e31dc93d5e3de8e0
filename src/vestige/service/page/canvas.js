// A canvas in the device's own pixels; what is drawn is in CSS pixels.
import { colour } from "./theme.js";

export function prepare(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "12px Inter, system-ui, sans-serif";
  return { pen, width, height };
}

export function write(pen, text, x, y, align = "left", name = "muted") {
  pen.fillStyle = colour(name);
  pen.textAlign = align;
  pen.fillText(text, x, y);
}
