/* yolo.h -- every part of the house, from low to high, for programs and tests.
 *
 * Letters: n images of a batch, h rows, w columns, c channels of an input, k filters (channels of
 * an output), s kernel side or stride where the name says so, p padding.  Activations are NHWC:
 * element (b, y, x, ch) of a tensor stands at ((b * h + y) * w + x) * c + ch.
 *
 * What a file or a user can cause returns -1 or NULL and leaves one line in a struct err; only bugs
 * and an empty machine die.  Who made a thing frees it: x_open goes with x_close. */
#ifndef YOLO_H
#define YOLO_H

#include "base/base.h"
#include "image/image.h"
#include "model/model.h"
#include "kernel/kernel.h"
#include "sync/sync.h"
#include "labels/labels.h"
#include "loss/loss.h"
#include "shard/shard.h"
#include "device/device.h"
#include "net/net.h"
#include "loader/loader.h"
#include "detect/detect.h"
#include "eval/eval.h"
#include "score/score.h"
#include "train/train.h"
#include "bench/bench.h"
#include "export/export.h"

#endif
