/* emu.cc -- the emulator's block and grid size; a test sets them. */
extern "C" {
int emu_block = 1, emu_grid = 3;
}
