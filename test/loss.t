#!/bin/sh
exec test/t-loss
